"""Sparsemax, Martins and Astudillo 2016 (https://arxiv.org/abs/1602.02068).

    p = argmin_p |p - z|^2 over the simplex = max(z - tau, 0)         equations 2 and 3
    k = max {j : 1 + j z_(j) > sum_{i <= j} z_(i)},  z_(1) >= z_(2) >= ...
    tau = (sum_{i <= k} z_(i) - 1) / k                                equation 4
    dp/dz v = S * (v - mean of v over S),  S = {i : p_i > 0}          section 2.5

Code name -> paper name: `scores` -> z, `threshold` -> tau, `support` -> S(z), `size` -> k(z).
"""

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.normalizers._masking import apply_mask, mask_scores
from keras_attention.normalizers.base import Normalizer


def sparsemax(scores: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """Returns the projection of the scores onto the probability simplex, over the last axis."""
    scores = mask_scores(scores, mask)
    scores = scores - ops.stop_gradient(reduce_rows(ops.max, scores, axis=-1, keepdims=True))
    fixed = ops.stop_gradient(scores)
    support = fixed > _threshold(fixed)
    # The sort has found the support; the gradient needs only its mean.
    size = ops.sum(ops.cast(support, scores.dtype), axis=-1, keepdims=True)
    inside = ops.where(support, scores, 0)
    threshold = (ops.sum(inside, axis=-1, keepdims=True) - 1) / size
    weights = ops.where(support, ops.maximum(scores - threshold, 0), 0)
    return apply_mask(weights, mask)


def sort_scores(scores: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns scores shifted to maximum 0, sorted and clipped at -1, and the numbers 1, 2, ...

    A score 1 or more below the best has weight 0; clipping it protects the sums from overflow.
    """
    falling = -ops.sort(-ops.maximum(scores, -1), axis=-1)
    return falling, ops.cast(ops.arange(1, get_shape(scores)[-1] + 1), scores.dtype)


def _threshold(scores):
    """Returns tau for scores with maximum 0."""
    falling, counts = sort_scores(scores)
    sums = ops.cumsum(falling, axis=-1)
    inside = ops.cast(1 + counts * falling > sums, scores.dtype)
    size = ops.sum(inside, axis=-1, keepdims=True)
    return (ops.sum(falling * inside, axis=-1, keepdims=True) - 1) / size


@keras.saving.register_keras_serializable(package="keras_attention")
class SparsemaxNormalizer(Normalizer):
    """Turns scores into weights, many of which are exactly 0.

    Use it if few keys matter and a plot should show which. A key whose score is 1 or more
    below the best gets no weight and no gradient.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `mask` is not boolean or does not broadcast to `scores`.

    Masking: masked keys get exactly 0; fully masked queries get zeros.

    Example:

    >>> weights = SparsemaxNormalizer()(keras.ops.array([[1.0, 0.5, -1.0]]))
    >>> [float(weight) for weight in weights[0]]
    [0.75, 0.25, 0.0]

    Reference: Martins and Astudillo 2016, https://arxiv.org/abs/1602.02068, section 2.
    """

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        return sparsemax(scores, mask)
