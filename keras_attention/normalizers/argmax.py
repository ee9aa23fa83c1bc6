"""Hard selection: all weight on the best score.

    w_i = 1 if i is the first index with s_i = max s, else 0

This is the most probable location, which Xu et al. 2015
(https://arxiv.org/abs/1502.03044, section 4.1) use when they do not sample.
"""

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.normalizers._masking import apply_mask, mask_scores
from keras_attention.normalizers.base import Normalizer


def one_hot_argmax(scores: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """Returns one-hot weights at the first maximum of each query; fully masked queries get zeros.

    Some backends do not specify which of several maxima `ops.argmax` returns.
    """
    scores = mask_scores(ops.stop_gradient(scores), mask)
    size = get_shape(scores)[-1]
    positions = ops.arange(size)
    best = scores == reduce_rows(ops.max, scores, axis=-1, keepdims=True)
    places = ops.where(best, positions, size)
    index = reduce_rows(ops.min, places, axis=-1, keepdims=True)
    return apply_mask(ops.cast(positions == index, scores.dtype), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class ArgmaxNormalizer(Normalizer):
    """Puts all weight on the key with the highest score, the first one if several tie.

    Use it to get the hard choice of a trained model. No gradient reaches the scores. To train
    hard choices, use `SampleNormalizer` or `GumbelSoftmaxNormalizer`.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.

    Returns:
        One-hot weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `mask` is not boolean or does not broadcast to `scores`.

    Masking: masked keys are never selected; fully masked queries get zeros.

    Example:

    >>> weights = ArgmaxNormalizer()(keras.ops.array([[1.0, 4.0, 4.0]]))
    >>> [float(weight) for weight in weights[0]]
    [0.0, 1.0, 0.0]

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        return one_hot_argmax(scores, mask)
