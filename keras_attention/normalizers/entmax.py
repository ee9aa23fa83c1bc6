"""Alpha-entmax, Peters et al. 2019 (https://arxiv.org/abs/1905.05702), with a learnable alpha,
Correia et al. 2019 (https://arxiv.org/abs/1909.00015).

    p_i = max((alpha - 1) z_i - tau, 0)^(1 / (alpha - 1)),  tau such that sum p = 1
    dp/dz v     = s * (v - s . v / sum s),  s_i = p_i^(2 - alpha) where p_i > 0
    dp_i/dalpha = (p_i - r_i) / (alpha - 1)^2 - (p_i log p_i + r_i h) / (alpha - 1)
                  r = s / sum s,  h = -sum p log p               Correia et al., equation 10

Peters et al., equation 10, proposition 2; alpha -> 1 is the softmax, alpha = 2 is sparsemax.
Code name -> paper name: `scores` -> z, `surplus` -> alpha - 1, `slopes` -> s.

We write p = exp(log1p(surplus * (z - max z - t)) / surplus) with t = (tau + 1) / surplus, which
stays exact as alpha nears 1. For alpha = 1.5 a sort finds the support and tau solves a quadratic
equation on it; for other alpha t is found by bisection.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores, silenced
from keras_attention.normalizers.sparsemax import sorted_scores, sparsemax
from keras_attention.shapes import reduce_rows
from keras_attention.written_gradient import custom_gradient

STEPS = {"float32": 30, "float64": 60}  # of the bisection: beyond the digits of the dtype
TINY = 1e-30
# Beyond alpha = 2 a weight near 0 has a slope near infinity; past the square root of the
# dtype's precision, `upstream - mean` would be rounding errors only.
LARGEST_LOG_SLOPE = {"float32": 8.0, "float64": 18.0}
LEAST_SURPLUS = 1e-4  # what a learnable alpha keeps from 1


def entmax(scores, surplus, mask=None):
    """Returns alpha-entmax weights over the last axis, `surplus` being alpha - 1 > 0.

    A `surplus` of exactly 0.5 or 1 (Python floats) takes the closed form. A tensor of one number
    gets a gradient.
    """
    if isinstance(surplus, float) and surplus == 1:
        return sparsemax(scores, mask)
    if isinstance(surplus, float) and surplus == 0.5:
        weights_of = _entmax15
    else:
        weights_of = _bisected

    @custom_gradient
    def run(scores, surplus):
        weights = weights_of(scores, surplus)

        def gradient(upstream):
            return _gradients(weights, surplus, upstream)

        return weights, gradient

    scores = masked_scores(scores, mask)
    return silenced(run(scores, ops.convert_to_tensor(surplus, scores.dtype)), mask)


def _entmax15(scores, surplus):
    """Returns 1.5-entmax from sorted scores; `surplus` is 0.5."""
    halves = (scores - reduce_rows(ops.max, scores, axis=-1, keepdims=True)) / 2
    falling, counts = sorted_scores(halves)
    mean = ops.cumsum(falling, axis=-1) / counts
    spread = ops.cumsum(falling * falling, axis=-1) - counts * mean * mean
    thresholds = mean - ops.sqrt(ops.maximum(1 - spread, 0) / counts)
    size = ops.sum(ops.cast(falling >= thresholds, scores.dtype), axis=-1, keepdims=True)
    inside = ops.cast(counts <= size, scores.dtype)
    # Once more on the support alone, where no difference of large sums loses digits.
    mean = ops.sum(falling * inside, axis=-1, keepdims=True) / size
    spread = ops.sum(inside * (falling - mean) ** 2, axis=-1, keepdims=True)
    threshold = mean - ops.sqrt(ops.maximum(1 - spread, 0) / size)
    return ops.maximum(halves - threshold, 0) ** 2


def _bisected(scores, surplus):
    """Returns alpha-entmax for any alpha > 1."""
    scores = scores - reduce_rows(ops.max, scores, axis=-1, keepdims=True)
    zeros = ops.zeros_like(scores[..., :1])
    # The largest weight lies between 1 / n and 1, which bounds t.
    count = ops.cast(ops.shape(scores)[-1], scores.dtype)
    highest = -ops.expm1(-surplus * ops.log(count)) / surplus

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        total = ops.sum(_powers(scores - middle, surplus), axis=-1, keepdims=True)
        return ops.where(total > 1, middle, low), ops.where(total > 1, high, middle)

    steps = STEPS[keras.backend.standardize_dtype(scores.dtype)]
    low, _ = ops.fori_loop(0, steps, halve, (zeros, zeros + highest))
    weights = _powers(scores - low, surplus)
    return weights / ops.sum(weights, axis=-1, keepdims=True)


def _powers(scores, surplus):
    """Returns max(1 + surplus * scores, 0)^(1 / surplus)."""
    rises = surplus * scores
    inside = rises > -1
    logs = ops.log1p(ops.where(inside, rises, 0)) / surplus
    return ops.where(inside, ops.exp(logs), 0)


def _gradients(weights, surplus, upstream):
    """Returns the gradients of the scores and of alpha."""
    inside = weights > TINY
    logs = ops.log(ops.where(inside, weights, 1))
    cap = LARGEST_LOG_SLOPE[keras.backend.standardize_dtype(weights.dtype)]
    # s - p, without the difference: it is what remains of the formula as alpha nears 1.
    rises = ops.expm1(ops.minimum(-surplus * logs, cap - logs))
    excess = ops.where(inside, weights * rises, 0)
    slopes = weights + excess
    total = ops.sum(slopes, axis=-1, keepdims=True)
    shares = slopes / total
    mean = ops.sum(shares * upstream, axis=-1, keepdims=True)
    apart = (weights * ops.sum(excess, axis=-1, keepdims=True) - excess) / (surplus * total)
    terms = weights * logs
    bend = apart - terms + shares * ops.sum(terms, axis=-1, keepdims=True)
    return slopes * (upstream - mean), ops.sum(upstream * bend) / surplus


@keras.saving.register_keras_serializable(package="keras_attention")
class EntmaxNormalizer(Normalizer):
    """Turns scores into sparse weights, by a number between softmax and sparsemax or beyond.

    Use it where sparsemax cuts too much and softmax nothing, or let the model learn how
    sparse it wants to be. 1.5 costs a sort, 2 is sparsemax, others cost some 30 passes.

    Args:
        alpha: Float above 1; larger is sparser.
        learnable: Whether alpha is trained, from this value on. The weight is `raw_alpha` and
            alpha is 1 + softplus(raw_alpha), always above 1.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `alpha` is not above 1, or `mask` does not fit.

    Masking: masked keys get exactly 0; a row without keys gets zeros.

    Example:

    >>> weights = EntmaxNormalizer(1.5)(keras.ops.array([[1.0, 0.0, -1.0]]))
    >>> [round(float(weight), 3) for weight in weights[0]]
    [0.831, 0.169, 0.0]

    Reference: Peters et al. 2019, https://arxiv.org/abs/1905.05702, section 3.
    """

    def __init__(self, alpha=1.5, learnable=False, **kwargs):
        super().__init__(**kwargs)
        hint = "For 1 take `SoftmaxNormalizer()`."
        self.alpha = checks.number_in_range(
            "EntmaxNormalizer", "alpha", alpha, 1, float("inf"), above=True, below=True, hint=hint
        )
        self.learnable = learnable

    def build(self, scores_shape, *args, **kwargs):
        if self.learnable:
            surplus = self.alpha - 1
            raw = surplus + np.log(-np.expm1(-surplus))  # softplus of this is the surplus
            start = keras.initializers.Constant(float(raw))
            self.raw_alpha = self.add_weight((), start, name="raw_alpha", autocast=False)
        self.built = True

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        if not self.learnable:
            return entmax(scores, self.alpha - 1.0, mask)
        surplus = ops.softplus(ops.cast(self.raw_alpha, scores.dtype))
        return entmax(scores, ops.maximum(surplus, LEAST_SURPLUS), mask)

    def get_config(self):
        return {**super().get_config(), "alpha": self.alpha, "learnable": self.learnable}
