"""Masking for losses: masked values are replaced before they are used."""

from keras import ops


def zero_masked(tensor, mask):
    """Returns the tensor with 0 where the mask is False, whatever its value.

    Args:
        tensor: Tensor `(batch, time, ...)`.
        mask: Boolean `(batch, time)`, or None if nothing is masked.
    """
    if mask is None:
        return tensor
    for _ in range(len(tensor.shape) - 2):
        mask = ops.expand_dims(mask, -1)
    return ops.where(mask, tensor, ops.zeros_like(tensor))


def batch_mean(values, valid=None):
    """Returns the mean of `values` `(batch,)` over the valid elements, 0 if there are none.

    Args:
        values: Float tensor `(batch,)`.
        valid: Boolean `(batch,)`, or None if all are valid.
    """
    if valid is None:
        return ops.mean(values)
    valid = ops.cast(valid, values.dtype)
    return ops.sum(values * valid) / ops.maximum(ops.sum(valid), 1)
