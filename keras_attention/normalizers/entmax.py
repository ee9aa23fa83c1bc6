"""Alpha-entmax, Peters et al. 2019 (https://arxiv.org/abs/1905.05702), with a learnable alpha,
Correia et al. 2019 (https://arxiv.org/abs/1909.00015).

    p_i = max((alpha - 1) z_i - tau, 0)^(1 / (alpha - 1)),  tau such that sum p = 1
    dp/dz v     = s * (v - s . v / sum s),  s_i = p_i^(2 - alpha) where p_i > 0
    dp_i/dalpha = (p_i - r_i) / (alpha - 1)^2 - (p_i log p_i + r_i h) / (alpha - 1)
                  r = s / sum s,  h = -sum p log p               Correia et al., equation 10

p and dp/dz are equation 10 and proposition 2 of Peters et al. As alpha approaches 1, p approaches
the softmax; alpha = 2 is sparsemax.
Code name -> paper name: `scores` -> z, `surplus` -> alpha - 1, `slopes` -> s.

We write p = exp(log1p(surplus * (z - max z - t)) / surplus) with t = (tau + 1) / surplus, which
stays accurate as alpha approaches 1. For alpha = 1.5 a sort finds the support, and tau solves a
quadratic equation on it. For other alpha, bisection finds t.
"""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention._utils.tensor_types import Config, LayerOptions, Shape, Tensor, TensorLike
from keras_attention.kernels.custom_gradients import custom_gradient
from keras_attention.normalizers._masking import apply_mask, mask_scores
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.sparsemax import sort_scores, sparsemax

BISECTION_STEPS = {"float32": 30, "float64": 60}  # more than the precision of the dtype needs
TINY = 1e-30
# Beyond alpha = 2 the slope of a weight near 0 approaches infinity. The cap keeps a slope small
# enough that `upstream - mean` is not pure rounding error.
MAX_LOG_SLOPE = {"float32": 8.0, "float64": 18.0}
MIN_SURPLUS = 1e-4  # minimum distance of a learnable alpha from 1


def entmax(
    scores: TensorLike, surplus: float | TensorLike, mask: TensorLike | None = None
) -> Tensor:
    """Returns alpha-entmax weights over the last axis; `surplus` is alpha - 1 > 0.

    A `surplus` of exactly 0.5 or 1 (Python floats) uses the closed form. A scalar tensor
    receives a gradient.
    """
    if isinstance(surplus, float) and surplus == 1:
        return sparsemax(scores, mask)
    if isinstance(surplus, float) and surplus == 0.5:
        compute_weights = _entmax15
    else:
        compute_weights = _entmax_by_bisection

    @custom_gradient
    def run(scores, surplus):
        weights = compute_weights(scores, surplus)

        def gradient(upstream):
            return _gradients(weights, surplus, upstream)

        return weights, gradient

    scores = mask_scores(scores, mask)
    return apply_mask(run(scores, ops.convert_to_tensor(surplus, scores.dtype)), mask)


def _entmax15(scores, _surplus):
    """Returns 1.5-entmax from sorted scores."""
    halves = (scores - reduce_rows(ops.max, scores, axis=-1, keepdims=True)) / 2
    falling, counts = sort_scores(halves)
    mean = ops.cumsum(falling, axis=-1) / counts
    spread = ops.cumsum(falling * falling, axis=-1) - counts * mean * mean
    thresholds = mean - ops.sqrt(ops.maximum(1 - spread, 0) / counts)
    size = ops.sum(ops.cast(falling >= thresholds, scores.dtype), axis=-1, keepdims=True)
    inside = ops.cast(counts <= size, scores.dtype)
    # Repeats the computation on the support alone, where large sums do not cancel.
    mean = ops.sum(falling * inside, axis=-1, keepdims=True) / size
    spread = ops.sum(inside * (falling - mean) ** 2, axis=-1, keepdims=True)
    threshold = mean - ops.sqrt(ops.maximum(1 - spread, 0) / size)
    return ops.maximum(halves - threshold, 0) ** 2


def _entmax_by_bisection(scores, surplus):
    """Returns alpha-entmax for any alpha > 1."""
    scores = scores - reduce_rows(ops.max, scores, axis=-1, keepdims=True)
    zeros = ops.zeros_like(scores[..., :1])
    # The largest weight lies between 1 / n and 1, which bounds t.
    count = ops.cast(get_shape(scores)[-1], scores.dtype)
    highest = -ops.expm1(-surplus * ops.log(count)) / surplus

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        total = ops.sum(_powers(scores - middle, surplus), axis=-1, keepdims=True)
        return ops.where(total > 1, middle, low), ops.where(total > 1, high, middle)

    steps = BISECTION_STEPS[keras.backend.standardize_dtype(scores.dtype)]
    low, _ = ops.fori_loop(0, steps, halve, (zeros, zeros + highest))
    weights = _powers(scores - low, surplus)
    return weights / ops.sum(weights, axis=-1, keepdims=True)


def _powers(scores, surplus):
    """Returns max(1 + surplus * scores, 0)^(1 / surplus)."""
    base_minus_one = surplus * scores
    inside = base_minus_one > -1
    logs = ops.log1p(ops.where(inside, base_minus_one, 0)) / surplus
    return ops.where(inside, ops.exp(logs), 0)


def _gradients(weights, surplus, upstream):
    """Returns the gradients of the scores and of alpha."""
    inside = weights > TINY
    logs = ops.log(ops.where(inside, weights, 1))
    cap = MAX_LOG_SLOPE[keras.backend.standardize_dtype(weights.dtype)]
    # s - p without a subtraction: the term of the formula that remains as alpha approaches 1.
    exponents = ops.minimum(-surplus * logs, cap - logs)
    relative_excess = ops.expm1(exponents)
    excess = ops.where(inside, weights * relative_excess, 0)
    slopes = weights + excess
    total = ops.sum(slopes, axis=-1, keepdims=True)
    fractions = slopes / total
    mean = ops.sum(fractions * upstream, axis=-1, keepdims=True)
    fraction_term = (weights * ops.sum(excess, axis=-1, keepdims=True) - excess) / (surplus * total)
    terms = weights * logs
    alpha_slopes = fraction_term - terms + fractions * ops.sum(terms, axis=-1, keepdims=True)
    return slopes * (upstream - mean), ops.sum(upstream * alpha_slopes) / surplus


@keras.saving.register_keras_serializable(package="keras_attention")
class EntmaxNormalizer(Normalizer):
    """Returns sparse weights, with a sparsity between softmax and sparsemax or beyond.

    Use it if sparsemax is too sparse and softmax not sparse enough, or let the model learn its
    sparsity. An alpha of 1.5 needs a sort, 2 is sparsemax, others need about 30 passes.

    Args:
        alpha: Float above 1; larger is sparser.
        learn_alpha: Whether to train alpha, starting from `alpha`. The variable is `raw_alpha`,
            and alpha is 1 + softplus(raw_alpha), always above 1.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `alpha` is not above 1, or `mask` does not fit.

    Masking: masked keys get exactly 0; fully masked queries get zeros.

    Example:

    >>> weights = EntmaxNormalizer(1.5)(keras.ops.array([[1.0, 0.0, -1.0]]))
    >>> [round(float(weight), 3) for weight in weights[0]]
    [0.831, 0.169, 0.0]

    Reference: Peters et al. 2019, https://arxiv.org/abs/1905.05702, section 3.
    """

    def __init__(
        self, alpha: float = 1.5, learn_alpha: bool = False, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        hint = "For alpha=1, use `SoftmaxNormalizer()`."
        self.alpha: float = validation.check_number_in_range(
            "EntmaxNormalizer",
            "alpha",
            alpha,
            1,
            float("inf"),
            exclude_low=True,
            exclude_high=True,
            hint=hint,
        )
        self.learn_alpha = learn_alpha

    def build(self, scores_shape: Shape, *args: Shape, **kwargs: Shape) -> None:
        if self.learn_alpha:
            surplus = self.alpha - 1
            raw = surplus + np.log(-np.expm1(-surplus))  # inverse of softplus
            start = keras.initializers.Constant(float(raw))
            self.raw_alpha: keras.Variable = self.add_weight(
                (), start, name="raw_alpha", autocast=False
            )
        self.built = True

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        if not self.learn_alpha:
            return entmax(scores, self.alpha - 1.0, mask)
        surplus = ops.softplus(ops.cast(self.raw_alpha, scores.dtype))
        return entmax(scores, ops.maximum(surplus, MIN_SURPLUS), mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "alpha": self.alpha, "learn_alpha": self.learn_alpha}
