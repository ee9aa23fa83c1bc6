"""Length and coverage penalties, which make hypotheses comparable.

    score(y) = log p(y) / lp(|y|) + cp(y)

    lp = ((5 + |y|) / 6)^alpha                                  GNMT, eq. 14
    lp = |y|                                                    the average per token
    cp = beta * sum_i log(min(sum_t a_ti, 1))                   GNMT, eq. 14

Wu et al. 2016 (https://arxiv.org/abs/1609.08144); `a_ti` is the alignment of target position
t to source position i. The length includes EOS.

A length penalty is any callable `(log_probs, lengths) -> scores`, of float32 and int32 tensors:
cast the lengths before dividing by them. It may also have a method
`upper_bound(log_probs, shortest, longest)`: the maximum score of a hypothesis that now has
`log_probs` and will end with a length in `shortest..longest`. With it, the search stops as soon
as the result is certain; without it, the search runs to the length limit. A coverage penalty is
any callable `(coverage, memory_mask) -> penalties` whose values are at most 0.
"""

import math
import numbers
from collections.abc import Callable
from typing import Self, TypeAlias

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import (
    Config,
    Tensor,
    TensorLike,
)

#: `(log_probs, lengths) -> scores`
LengthPenalty: TypeAlias = Callable[[Tensor, Tensor], TensorLike]
#: `(coverage, memory_mask) -> penalties`
CoveragePenaltyFunction: TypeAlias = Callable[[Tensor, Tensor | None], TensorLike]


@keras.saving.register_keras_serializable(package="keras_attention")
class GNMTLengthPenalty:
    """Divides log-probabilities by `((5 + length) / 6) ** alpha`.

    An `alpha` of 0 keeps the scores and thereby prefers short output. A larger `alpha` prefers
    longer output, a negative one even shorter output. The Transformer uses 0.6.

    Args:
        alpha: Number from -10 to 10.

    Call arguments:
        log_probs: Float tensor of shape `(batch, hypotheses)`, summed log-probabilities.
        lengths: Int tensor that broadcasts to it, including EOS.

    Returns:
        Scores of the shape of `log_probs`.

    Raises:
        ValueError: If `alpha` is not a number from -10 to 10.

    Example:

    >>> import keras
    >>> from keras_attention.search import GNMTLengthPenalty
    >>> penalty = GNMTLengthPenalty(0.6)
    >>> round(float(penalty(keras.ops.array([[-1.732862]]), keras.ops.array([[10]]))[0, 0]), 4)
    -1.0

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """

    def __init__(self, alpha: float = 0.6) -> None:
        self.alpha: float = float(
            validation.check_number_in_range("GNMTLengthPenalty", "alpha", alpha, -10, 10)
        )

    def __call__(self, log_probs: Tensor, lengths: Tensor) -> TensorLike:
        return log_probs / ((5.0 + ops.cast(lengths, log_probs.dtype)) / 6.0) ** self.alpha

    def upper_bound(
        self, log_probs: TensorLike, shortest: TensorLike, longest: TensorLike
    ) -> Tensor:
        """Returns the score at the better end of the lengths: `lp` is monotonic in between."""
        return ops.maximum(self(log_probs, shortest), self(log_probs, longest))

    def get_config(self) -> Config:
        return {"alpha": self.alpha}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attention")
class AverageLengthPenalty:
    """Divides log-probabilities by the length: the mean log-probability of a token.

    Call arguments:
        log_probs: Float tensor of shape `(batch, hypotheses)`, summed log-probabilities.
        lengths: Int tensor that broadcasts to it, at least 1, including EOS.

    Returns:
        Scores of the shape of `log_probs`.

    Example:

    >>> import keras
    >>> from keras_attention.search import AverageLengthPenalty
    >>> penalty = AverageLengthPenalty()
    >>> float(penalty(keras.ops.array([[-6.0]]), keras.ops.array([[4]]))[0, 0])
    -1.5

    Source: the normalized score of Cho et al. 2014 (https://arxiv.org/abs/1409.1259), section 4.
    """

    def __call__(self, log_probs: Tensor, lengths: Tensor) -> TensorLike:
        return log_probs / ops.cast(lengths, log_probs.dtype)

    def upper_bound(
        self, log_probs: TensorLike, shortest: TensorLike, longest: TensorLike
    ) -> Tensor:
        """Returns the score at the largest length, which is the maximum."""
        return self(log_probs, longest)

    def get_config(self) -> Config:
        return {}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attention")
class CoveragePenalty:
    """Adds `beta * sum_i log(min(coverage_i, 1))`, which penalizes uncovered source words.

    Coverage is the sum of a source position's attention weights over all steps of a hypothesis,
    including that of EOS, so that it can be recomputed from the returned alignments.

    Args:
        beta: Number of at least 0, the weight of the penalty; GNMT uses 0.2.

    Call arguments:
        coverage: Float tensor of shape `(batch, hypotheses, source)`, summed alignments.
        memory_mask: Boolean tensor of shape `(batch, source)`, True at real source positions, or
            None. A real position without any attention counts as covered by 1e-9. Without
            a mask, positions with a coverage of exactly 0 are treated as padding.

    Returns:
        Penalties of shape `(batch, hypotheses)`, at most 0.

    Raises:
        ValueError: If `beta` is not a number of at least 0.

    Example:

    >>> import keras
    >>> from keras_attention.search import CoveragePenalty
    >>> coverage = keras.ops.array([[[1.5, 0.5, 0.0]]])
    >>> round(float(CoveragePenalty(2.0)(coverage)[0, 0]), 4)
    -1.3863

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """

    def __init__(self, beta: float = 0.2) -> None:
        self.beta: float = float(
            validation.check_number_in_range("CoveragePenalty", "beta", beta, 0, math.inf, True)
        )

    def __call__(self, coverage: Tensor, memory_mask: Tensor | None = None) -> TensorLike:
        valid = coverage > 0.0 if memory_mask is None else ops.expand_dims(memory_mask, 1)
        covered = ops.where(valid, ops.clip(coverage, 1e-9, 1.0), 1.0)
        return self.beta * ops.sum(ops.log(covered), axis=-1)

    def get_config(self) -> Config:
        return {"beta": self.beta}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)


def convert_penalty(
    owner: str,
    name: str,
    penalty: LengthPenalty | CoveragePenaltyFunction | float | None,
    factor_class: type,
) -> LengthPenalty | CoveragePenaltyFunction | None:
    """Returns `penalty`, or for a number the `factor_class` with that factor.

    Raises:
        ValueError: If `penalty` is a number out of range, a class, or not callable.
    """
    if isinstance(penalty, numbers.Real):
        try:
            return factor_class(penalty)
        except ValueError as error:
            raise ValueError(
                f"{owner} expects a number that {factor_class.__name__} accepts as `{name}`. "
                f"Received: {name}={penalty}. {error}"
            ) from None
    if penalty is not None and (not callable(penalty) or isinstance(penalty, type)):
        raise ValueError(
            f"{owner} expects `{name}` to be None, a number, or a callable such as "
            f"`{factor_class.__name__}()`. Received: {name}={penalty!r}"
        )
    return penalty
