"""The masked mean of the source, from which some decoders compute their initial state."""

from keras import ops

from keras_attention._utils.dtypes import at_least_float32


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
