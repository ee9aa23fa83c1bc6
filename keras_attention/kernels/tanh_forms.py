"""The hyperbolic tangent of a sum, of which one side is shared by many sums.

    t[q, k, u] = tanh(a[q, u] + b[k, u])

What depends on one side alone is computed once for each side, and combined for each pair.
"""

from collections.abc import Callable

from keras import ops

from keras_attention._utils.tensor_types import Structure, Tensor, TensorLike

MAX_QUOTIENT_ARGUMENT = 20.0  # with the shift |2a| and |2b| reach 80, and e^80 fits float32


class PlainTanh:
    """tanh(a + b), for sides `(units, ...)` of any size."""

    @staticmethod
    def shift(side: TensorLike) -> Tensor:
        """Returns the shift that is subtracted from b and added to a, `(units, 1)`."""
        return ops.zeros_like(side[:, :1])

    @staticmethod
    def left(side: TensorLike) -> tuple[Tensor, ...]:
        """Returns the terms that depend on a alone, for `combine`."""
        return (side,)

    @staticmethod
    def right(side: TensorLike) -> tuple[Tensor, ...]:
        """Returns the terms that depend on b alone, for `combine`."""
        return (side,)

    @staticmethod
    def combine(left: TensorLike, right: TensorLike) -> Tensor:
        """Returns tanh(a + b)."""
        return ops.tanh(left + right)


class QuotientTanh:
    """tanh(a + b) as a quotient; the exponentials are computed once for each side.

        tanh(a + b) = s / (s + 2)       s = e^(2a + 2b) - 1 = (e^(2a) - 1) e^(2b) + (e^(2b) - 1)

    It is accurate near zero, where e^(2a + 2b) - 1 would cancel, and elsewhere if no b is
    positive. So the largest b of each unit is moved to a. It is valid while |a| and |b| are at
    most MAX_QUOTIENT_ARGUMENT.
    """

    @staticmethod
    def shift(side: TensorLike) -> Tensor:
        """Returns the shift that is subtracted from b and added to a, `(units, 1)`."""
        return ops.max(side, axis=1, keepdims=True)

    @staticmethod
    def left(side: TensorLike) -> tuple[Tensor, ...]:
        """Returns the terms that depend on a alone, for `combine`."""
        return (ops.expm1(2.0 * side),)

    @staticmethod
    def right(side: TensorLike) -> tuple[Tensor, ...]:
        """Returns the terms that depend on b alone, for `combine`."""
        return (ops.exp(2.0 * side), ops.expm1(2.0 * side))

    @staticmethod
    def combine(left: TensorLike, factor: TensorLike, right: TensorLike) -> Tensor:
        """Returns tanh(a + b)."""
        power = left * factor + right
        return power / (power + 2.0)


#: The ways to compute t.
TanhForm = type[PlainTanh] | type[QuotientTanh]


def choose_tanh(compute: Callable[[TanhForm], Structure], *sides: TensorLike) -> Structure:
    """Returns `compute(form)`, with `QuotientTanh` if these sides permit it."""
    return ops.cond(
        permits_quotient(*sides), lambda: compute(QuotientTanh), lambda: compute(PlainTanh)
    )


def permits_quotient(*sides: TensorLike) -> Tensor:
    """Returns whether `QuotientTanh` is valid for these sides, a boolean tensor."""
    largest = ops.maximum(*(ops.max(ops.abs(side)) for side in sides))
    return largest <= MAX_QUOTIENT_ARGUMENT
