"""The positions of the inputs of a layer: a sequence, or the vectors of a single step."""

from keras import ops

from keras_attention._utils.position_ids import compute_position_ids
from keras_attention._utils.shapes import get_shape


def compute_input_positions(inputs, position=None):
    """Returns int32 positions that broadcast to the leading axes of `inputs`.

    Args:
        inputs: Tensor `(batch, length, dim)`, or `(batch, dim)` for a single position.
        position: Int `(batch,)`, the position of the (first) vector of each sequence, or
            `(batch, length)`, that of each; None counts from 0.

    Returns:
        `(1 or batch, length)`, or `(1 or batch,)` for a single position.
    """
    if len(inputs.shape) == 2:
        return ops.zeros((1,), "int32") if position is None else ops.cast(position, "int32")
    return compute_position_ids(get_shape(inputs)[1], position)


def check_positions(owner: str, inputs_shape, position) -> None:
    """Raises unless `position` is None or fits vectors of this shape."""
    if position is None:
        return
    ranks = (1, 2) if len(inputs_shape) == 3 else (1,)
    pairs = zip(position.shape, inputs_shape, strict=False)
    fits = all(None in pair or pair[0] in (1, pair[1]) for pair in pairs)
    if len(position.shape) not in ranks or not fits:
        raise ValueError(
            f"{owner} expects `position` of shape (batch,), the first position of a sequence, or "
            f"(batch, length), that of each vector. Received: "
            f"position.shape={tuple(position.shape)}, inputs.shape={tuple(inputs_shape)}"
        )
