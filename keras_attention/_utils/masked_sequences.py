"""Masks of sequences: zeros at masked positions, the last unmasked one, and their mean."""

from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape, reduce_rows


def zero_masked(tensor, mask):
    """Returns the tensor with 0 where the mask is False, whatever its value there.

    Args:
        tensor: Tensor `(batch, time, ...)`.
        mask: Boolean `(batch, time)`, or None if nothing is masked.
    """
    if mask is None:
        return tensor
    for _ in range(len(tensor.shape) - 2):
        mask = ops.expand_dims(mask, -1)
    return ops.where(mask, tensor, 0)


def last_valid_position(mask, batch, time):
    """Returns the index of the last unmasked position, int32 `(batch, 1)`; 0 if all are masked.

    Args:
        mask: Boolean `(batch, time)`, or None if nothing is masked.
        batch: Int or int tensor.
        time: Int or int tensor.
    """
    positions = ops.arange(time, dtype="int32")[None, :]
    if mask is not None:
        positions = ops.where(mask, positions, 0)
    last = reduce_rows(ops.max, positions, axis=1, keepdims=True)
    return ops.broadcast_to(last, (batch, 1))


def gather_last_valid(sequence, mask):
    """Returns the vector at the last unmasked position, `(batch, dim)`; 0 if all are masked.

    Args:
        sequence: Float tensor `(batch, time, dim)`; masked vectors may contain anything.
        mask: Boolean that broadcasts to `(batch, time)`, or None if nothing is masked.

    Example:

    >>> states = ops.array([[[1.0], [2.0], [float("nan")]]])
    >>> float(gather_last_valid(states, ops.array([[True, True, False]]))[0, 0])
    2.0
    """
    if mask is None:
        return sequence[:, -1]
    batch, time = get_shape(sequence)[:2]
    last = last_valid_position(mask, batch, time)
    is_last = mask & (ops.arange(time, dtype="int32")[None, :] == last)
    return ops.sum(ops.where(is_last[:, :, None], sequence, 0), axis=1)


def masked_mean(values, mask):
    """Returns the mean of the unmasked positions `(batch, dim)`, 0 if all are masked.

    Args:
        values: Float tensor `(batch, source, dim)`; masked positions may contain anything.
        mask: Boolean `(batch, source)`, True for positions that count.

    Example:

    >>> values = ops.array([[[1.0], [3.0], [9.0]]])
    >>> float(masked_mean(values, ops.array([[True, True, False]]))[0, 0])
    2.0
    """
    values = at_least_float32(ops.where(mask[:, :, None], values, 0))
    count = ops.maximum(ops.sum(ops.cast(mask, values.dtype), axis=1), 1)
    return ops.sum(values, axis=1) / count[:, None]
