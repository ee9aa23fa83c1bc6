"""The two forms of a head's shift, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3.2).

    softmax:  s(j) = softmax_j(a_j),  j = -max_shift .. max_shift
    scalar:   z = max_shift tanh(a),  s(n) = 1 - f,  s(n + 1) = f,  with n = floor(z), f = z - n

Both give the weight of every integer shift from -max_shift to max_shift. The scalar z is the lower
edge of a density of width 1, which gives the same weights, max(0, 1 - |z - j|).
"""

from typing import Self

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Config, Tensor, TensorLike
from keras_attention.ntm.addressing import circular_shift, scalar_shift


class Shift:
    """Base class; `size` is the number of controller outputs per head for the shift."""

    max_shift = 1

    def get_config(self) -> Config:
        return {"max_shift": self.max_shift}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)

    def check_memory_size(self, owner: str, memory_size: int) -> None:
        """Raises if the shifts do not fit into a memory of `memory_size` slots."""
        if self.max_shift is not None and 2 * self.max_shift + 1 > memory_size:
            raise ValueError(
                f"{owner} expects shifts from -{self.max_shift} to {self.max_shift} to be "
                "different "
                f"slots: at least {2 * self.max_shift + 1} slots, or a smaller max_shift. "
                f"Received: memory_size={memory_size}, "
                f"shift={type(self).__name__}(max_shift={self.max_shift})"
            )


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxShift(Shift):
    """Shifts by a softmax over the integer shifts from `-max_shift` to `max_shift`.

    Args:
        max_shift: Int of at least 0, the largest shift; 0 keeps the weights in place.

    Raises:
        ValueError: If `max_shift` is not an int of at least 0.

    Example:

    >>> shift = SoftmaxShift(max_shift=2)
    >>> shift.size
    5
    """

    def __init__(self, max_shift: int = 1) -> None:
        self.max_shift: int = validation.check_int_at_least(
            "SoftmaxShift", "max_shift", max_shift, 0
        )
        self.size: int = 2 * self.max_shift + 1

    def shift_weights(self, raw: TensorLike) -> Tensor:
        """Returns the weight of every integer shift, `(batch, heads, 2 * max_shift + 1)`."""
        # Keras warns about a softmax over one number.
        return ops.softmax(raw) if self.size > 1 else ops.ones_like(raw)

    def shift_weights_gradient(
        self, cotangent: TensorLike, raw: TensorLike, shift_weights: TensorLike
    ) -> Tensor:
        """Returns the gradient of `raw` from that of the shift weights."""
        return shift_weights * (
            cotangent - ops.sum(shift_weights * cotangent, axis=-1, keepdims=True)
        )

    def apply(self, weights: TensorLike, raw: TensorLike) -> Tensor:
        """Returns the shifted weights."""
        return circular_shift(weights, self.shift_weights(raw))


@keras.saving.register_keras_serializable(package="keras_attention")
class ScalarShift(Shift):
    """Shifts by one number, which may lie between two integer shifts.

    Args:
        max_shift: Positive int: the shift is `max_shift * tanh(raw)`; or None: it is `raw` itself
            and may wrap around the memory many times.

    Raises:
        ValueError: If `max_shift` is neither None nor a positive int.

    Example:

    >>> shift_weights = ScalarShift(max_shift=1).shift_weights(keras.ops.arctanh([[[0.25]]]))
    >>> [round(float(share), 6) for share in shift_weights[0, 0]]
    [0.0, 0.75, 0.25]
    """

    size = 1

    def __init__(self, max_shift: int | None = 1) -> None:
        if max_shift is not None:
            validation.check_positive_int(
                "ScalarShift", "max_shift", max_shift, "None leaves it unbounded."
            )
        self.max_shift = max_shift

    def shift_weights(self, raw: TensorLike) -> Tensor:
        """Returns the weight of every integer shift, `(batch, heads, 2 * max_shift + 1)`."""
        return ops.relu(1.0 - ops.abs(self._distances(raw)))

    def shift_weights_gradient(
        self, cotangent: TensorLike, raw: TensorLike, shift_weights: TensorLike
    ) -> Tensor:
        """Returns the gradient of `raw` from that of the shift weights."""
        slopes = ops.where(shift_weights > 0, -ops.sign(self._distances(raw)), 0)
        of_distance = ops.sum(cotangent * slopes, axis=-1, keepdims=True)
        return of_distance * self.max_shift * (1.0 - ops.square(ops.tanh(raw)))

    def apply(self, weights: TensorLike, raw: TensorLike) -> Tensor:
        """Returns the shifted weights."""
        if self.max_shift is None:
            return scalar_shift(weights, raw[:, :, 0])
        return circular_shift(weights, self.shift_weights(raw))

    def _distances(self, raw):
        whole = ops.cast(ops.arange(-self.max_shift, self.max_shift + 1), raw.dtype)
        return self.max_shift * ops.tanh(raw) - whole


SHIFTS: dict[str, type[Shift]] = {"softmax": SoftmaxShift, "scalar": ScalarShift}


def get(shift: str | Shift | Config) -> Shift:
    """Returns the shift for a name or a config; an object is returned unchanged.

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
        f"A shift is one of {', '.join(map(repr, SHIFTS))}, `SoftmaxShift(max_shift)` or "
        f"`ScalarShift(max_shift)`. Received: shift={shift!r}"
    )
