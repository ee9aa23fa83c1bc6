"""Sparsemax, Martins and Astudillo 2016 (https://arxiv.org/abs/1602.02068).

    p = argmin_p |p - z|^2 over the simplex = max(z - tau, 0)         equations 2 and 3
    k = max {j : 1 + j z_(j) > sum_{i <= j} z_(i)},  z_(1) >= z_(2) >= ...
    tau = (sum_{i <= k} z_(i) - 1) / k                                equation 4
    dp/dz v = S * (v - mean of v over S),  S = {i : p_i > 0}          section 2.5

Code name -> paper name: `scores` -> z, `threshold` -> tau, `support` -> S(z), `size` -> k(z).
"""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores, silenced
from keras_attention.shapes import reduce_rows


def sparsemax(scores, mask=None):
    """Returns the projection of the scores onto the probability simplex, over the last axis."""
    scores = masked_scores(scores, mask)
    scores = scores - ops.stop_gradient(reduce_rows(ops.max, scores, axis=-1, keepdims=True))
    fixed = ops.stop_gradient(scores)
    support = fixed > _threshold(fixed)
    # The sort found out who is in the support; the gradient needs no more than that.
    size = ops.sum(ops.cast(support, scores.dtype), axis=-1, keepdims=True)
    inside = ops.where(support, scores, 0)
    threshold = (ops.sum(inside, axis=-1, keepdims=True) - 1) / size
    weights = ops.where(support, ops.maximum(scores - threshold, 0), 0)
    return silenced(weights, mask)


def sorted_scores(scores):
    """Returns scores with maximum 0 in falling order, cut off at -1, and the numbers 1, 2, ...

    A score 1 or more below the best has weight 0; cut off, it cannot spoil the sums.
    """
    falling = -ops.sort(-ops.maximum(scores, -1), axis=-1)
    return falling, ops.cast(ops.arange(1, ops.shape(scores)[-1] + 1), scores.dtype)


def _threshold(scores):
    """Returns tau for scores with maximum 0."""
    falling, counts = sorted_scores(scores)
    sums = ops.cumsum(falling, axis=-1)
    inside = ops.cast(1 + counts * falling > sums, scores.dtype)
    size = ops.sum(inside, axis=-1, keepdims=True)
    return (ops.sum(falling * inside, axis=-1, keepdims=True) - 1) / size


@keras.saving.register_keras_serializable(package="keras_attention")
class SparsemaxNormalizer(Normalizer):
    """Turns scores into weights many of which are exactly 0.

    Use it where few keys matter and the picture should show which. Keys whose score lies 1
    or more below the best get no weight, and no gradient.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `mask` is not boolean or does not broadcast to `scores`.

    Masking: masked keys get exactly 0; a row without keys gets zeros.

    Example:

    >>> weights = SparsemaxNormalizer()(keras.ops.array([[1.0, 0.5, -1.0]]))
    >>> [float(weight) for weight in weights[0]]
    [0.75, 0.25, 0.0]

    Reference: Martins and Astudillo 2016, https://arxiv.org/abs/1602.02068, section 2.
    """

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return sparsemax(scores, mask)
