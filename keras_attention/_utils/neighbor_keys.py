"""Tensors over the keys of a source: their neighbors, and weights on the first of them."""

from keras import ops


def first_key_weights(batch, num_keys, dtype):
    """Returns weights `(batch, key)` with all weight on key 0, where forward movement starts."""
    first = ops.cast(ops.arange(num_keys) == 0, dtype)
    return ops.broadcast_to(first, (batch, num_keys))


def gather_neighbors(tensor, before: int, after: int, padding: float = 0.0):
    """Returns `(..., key, before + 1 + after)`: each position's neighbors, from left to right.

    Args:
        tensor: Float tensor `(..., key)`.
        before: How many neighbors on the left.
        after: How many neighbors on the right.
        padding: The neighbor beyond either end.

    Example:

    >>> gather_neighbors(ops.array([1.0, 2.0, 3.0]), 1, 0).numpy().tolist()
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    widths = [(0, 0)] * (len(tensor.shape) - 1) + [(before, after)]
    padded = ops.pad(tensor, widths, constant_values=padding)
    window = before + 1 + after
    copies = [padded[..., first : first - window + 1 or None] for first in range(window)]
    return ops.stack(copies, axis=-1)
