"""The two ways in which a head says how far to shift, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3.2).

    softmax:  s(j) = softmax_j(a_j),  j = -reach .. reach
    scalar:   z = reach tanh(a),  s(n) = 1 - f,  s(n + 1) = f,  with n = floor(z), f = z - n

Both give the share of every whole shift from -reach to reach. The scalar z is the lower edge of
a density of width 1; its shares are max(0, 1 - |z - j|), which is the same.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.memory.addressing import circular_shift, scalar_shift


class Shift:
    """What the two forms share; `size` is the count of numbers that a head gives out for it."""

    reach = 1

    def get_config(self):
        return {"reach": self.reach}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def check_slots(self, owner, slots):
        """Raises if the shifts do not fit into a memory of `slots` slots."""
        if self.reach is not None and 2 * self.reach + 1 > slots:
            raise ValueError(
                f"{owner} expects shifts from -{self.reach} to {self.reach} to be different "
                f"slots: at least {2 * self.reach + 1} slots, or a smaller reach. "
                f"Received: slots={slots}, shift={type(self).__name__}(reach={self.reach})"
            )


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxShift(Shift):
    """Shifts by a softmax over the whole shifts from `-reach` to `reach`.

    Args:
        reach: Int of at least 0, the farthest shift; 0 leaves the weights in place.

    Raises:
        ValueError: If `reach` is not an int of at least 0.

    Example:

    >>> shift = SoftmaxShift(reach=2)
    >>> shift.size
    5
    """

    def __init__(self, reach: int = 1):
        self.reach = checks.int_at_least("SoftmaxShift", "reach", reach, 0)
        self.size = 2 * self.reach + 1

    def shares(self, raw):
        """Returns the share of every whole shift, `(batch, heads, 2 * reach + 1)`."""
        # Keras warns of a softmax over one number.
        return ops.softmax(raw) if self.size > 1 else ops.ones_like(raw)

    def shares_gradient(self, given, raw, shares):
        """Returns the gradient of `raw` from that of the shares."""
        return shares * (given - ops.sum(shares * given, axis=-1, keepdims=True))

    def apply(self, weights, raw):
        """Returns the shifted weights."""
        return circular_shift(weights, self.shares(raw))


@keras.saving.register_keras_serializable(package="keras_attention")
class ScalarShift(Shift):
    """Shifts by one number, which may lie between two whole shifts.

    Args:
        reach: Positive int, the number is `reach * tanh(raw)`; or None, it is `raw` itself and
            may go around the memory many times.

    Raises:
        ValueError: If `reach` is neither None nor a positive int.

    Example:

    >>> shares = ScalarShift(reach=1).shares(keras.ops.arctanh([[[0.25]]]))
    >>> [round(float(share), 6) for share in shares[0, 0]]
    [0.0, 0.75, 0.25]
    """

    size = 1

    def __init__(self, reach: int | None = 1):
        if reach is not None:
            checks.positive_int("ScalarShift", "reach", reach, "None leaves it unbounded.")
        self.reach = reach

    def shares(self, raw):
        """Returns the share of every whole shift, `(batch, heads, 2 * reach + 1)`."""
        return ops.relu(1.0 - ops.abs(self._distances(raw)))

    def shares_gradient(self, given, raw, shares):
        """Returns the gradient of `raw` from that of the shares."""
        slopes = ops.where(shares > 0, -ops.sign(self._distances(raw)), 0)
        moved = ops.sum(given * slopes, axis=-1, keepdims=True)
        return moved * self.reach * (1.0 - ops.square(ops.tanh(raw)))

    def apply(self, weights, raw):
        """Returns the shifted weights."""
        if self.reach is None:
            return scalar_shift(weights, raw[:, :, 0])
        return circular_shift(weights, self.shares(raw))

    def _distances(self, raw):
        whole = ops.cast(ops.arange(-self.reach, self.reach + 1), raw.dtype)
        return self.reach * ops.tanh(raw) - whole


SHIFTS = {"softmax": SoftmaxShift, "scalar": ScalarShift}


def get(shift) -> Shift:
    """Returns the shift of that name or configuration; an object is returned as it is.

    Raises:
        ValueError: If it is none of them.
    """
    if isinstance(shift, Shift):
        return shift
    if isinstance(shift, str) and shift in SHIFTS:
        return SHIFTS[shift]()
    if isinstance(shift, dict):
        return get(keras.saving.deserialize_keras_object(shift))
    raise ValueError(
        f"A shift is one of {', '.join(map(repr, SHIFTS))}, `SoftmaxShift(reach)` or "
        f"`ScalarShift(reach)`. Received: shift={shift!r}"
    )
