"""How every loss reads a mask: what is left out is replaced before it is used."""

from keras import ops


def silenced(tensor, mask):
    """Returns the tensor with 0 where the mask is False, whatever stood there.

    Args:
        tensor: Tensor `(batch, time, ...)`.
        mask: Boolean `(batch, time)`, or None to keep everything.
    """
    if mask is None:
        return tensor
    for _ in range(len(tensor.shape) - 2):
        mask = ops.expand_dims(mask, -1)
    return ops.where(mask, tensor, ops.zeros_like(tensor))


def batch_mean(values, real=None):
    """Returns the mean of `values` `(batch,)` over the rows that are real, 0 without any.

    Args:
        values: Float tensor `(batch,)`.
        real: Boolean `(batch,)`, or None where all rows are.
    """
    if real is None:
        return ops.mean(values)
    real = ops.cast(real, values.dtype)
    return ops.sum(values * real) / ops.maximum(ops.sum(real), 1)
