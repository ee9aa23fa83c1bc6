"""What a decoder begins from that has looked at nothing yet: the mean of what it will look at."""

from keras import ops

from keras_attention.precision import at_least_float32


def mean_state(values, mask):
    """Returns the mean of the kept positions `(batch, dim)`, 0 for a row without any.

    Args:
        values: Float tensor `(batch, source, dim)`; masked positions may hold anything.
        mask: Boolean `(batch, source)`, True for positions that count.

    Example:

    >>> values = ops.array([[[1.0], [3.0], [9.0]]])
    >>> float(mean_state(values, ops.array([[True, True, False]]))[0, 0])
    2.0
    """
    values = at_least_float32(ops.where(mask[:, :, None], values, 0))
    count = ops.maximum(ops.sum(ops.cast(mask, values.dtype), axis=1), 1)
    return ops.sum(values, axis=1) / count[:, None]
