"""Masking for losses: masked values are replaced before they are used."""

import keras
from keras import ops

from keras_attention import validation


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


class _ImplicitMask(keras.losses.Loss):
    """Returns 1 where the implicit mask of the predictions is True, and 0 elsewhere.

    On JAX a traced tensor has no attributes, and only a loss of Keras finds its mask.
    """

    def call(self, y_true, y_pred):
        return ops.ones_like(y_true)


def weigh_positions(owner, is_counted, y_pred, sample_weight, dtype):
    """Returns the weights of positions, `(batch, time)`: 0 where they do not count.

    Args:
        owner: Str, the name of the class in errors.
        is_counted: Boolean `(batch, time)`.
        y_pred: Predictions `(batch, time, ...)`, which may carry an implicit mask.
        sample_weight: None, or weights `(batch,)` or `(batch, time)`.
        dtype: Str, the dtype of the weights.
    """
    is_counted = ops.cast(is_counted, dtype)
    weights = _ImplicitMask("mask", "none", dtype)(is_counted, y_pred) * is_counted
    if sample_weight is None:
        return weights
    sample_weight = ops.convert_to_tensor(sample_weight, dtype)
    axes = "(batch,) or (batch, time)"
    validation.check_rank(owner, "sample_weight", sample_weight, (1, 2), axes)
    if len(sample_weight.shape) == 1:
        sample_weight = ops.expand_dims(sample_weight, -1)
    return weights * sample_weight
