"""The state after a row's last token, whatever padding follows."""

from keras import ops

from keras_attention.mechanisms.windows import last_kept


def last_state(states, mask):
    """Returns each row's last kept state, `(batch, dim)`; 0 for a row without one.

    Args:
        states: Float tensor `(batch, time, dim)`; masked ones may hold anything.
        mask: Boolean `(batch, time)`.

    Example:

    >>> states = ops.array([[[1.0], [2.0], [float("nan")]]])
    >>> float(last_state(states, ops.array([[True, True, False]]))[0, 0])
    2.0
    """
    batch, time = ops.shape(mask)
    last = last_kept(mask, batch, time)
    chosen = mask & (ops.arange(time, dtype="int32")[None, :] == last)
    return ops.sum(ops.where(chosen[:, :, None], states, 0), axis=1)
