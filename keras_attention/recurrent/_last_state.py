"""The state after a sequence's last token, whatever padding follows."""

from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention.attention._windows import last_valid_position


def gather_last_state(states, mask):
    """Returns the state at the last unmasked position, `(batch, dim)`; 0 if all are masked.

    Args:
        states: Float tensor `(batch, time, dim)`; masked ones may contain anything.
        mask: Boolean `(batch, time)`.

    Example:

    >>> states = ops.array([[[1.0], [2.0], [float("nan")]]])
    >>> float(gather_last_state(states, ops.array([[True, True, False]]))[0, 0])
    2.0
    """
    batch, time = get_shape(mask)
    last = last_valid_position(mask, batch, time)
    chosen = mask & (ops.arange(time, dtype="int32")[None, :] == last)
    return ops.sum(ops.where(chosen[:, :, None], states, 0), axis=1)
