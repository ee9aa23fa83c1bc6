"""Hard selection: all weight on the best score.

    w_i = 1 if i is the first index with s_i = max s, else 0

The choice of the most probable location, as in Xu et al. 2015
(https://arxiv.org/abs/1502.03044, section 4.1) where no location is drawn.
"""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores, silenced
from keras_attention.shapes import reduce_rows


def first_maximum(scores, mask=None):
    """Returns one-hot weights at the first maximum of each row; an empty row gets zeros.

    `ops.argmax` leaves open on some backends which of several maxima it finds.
    """
    scores = masked_scores(ops.stop_gradient(scores), mask)
    size = ops.shape(scores)[-1]
    positions = ops.arange(size)
    best = scores == reduce_rows(ops.max, scores, axis=-1, keepdims=True)
    places = ops.where(best, positions, size)
    index = reduce_rows(ops.min, places, axis=-1, keepdims=True)
    return silenced(ops.cast(positions == index, scores.dtype), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class ArgmaxNormalizer(Normalizer):
    """Puts all weight on the key with the highest score, the first of several.

    Use it to read a trained model's hard choice. No gradient reaches the scores, so it
    trains nothing before it; `SampleNormalizer` and `GumbelSoftmaxNormalizer` do.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.

    Returns:
        One-hot weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `mask` is not boolean or does not broadcast to `scores`.

    Masking: a masked key is never chosen; a row without keys gets zeros.

    Example:

    >>> weights = ArgmaxNormalizer()(keras.ops.array([[1.0, 4.0, 4.0]]))
    >>> [float(weight) for weight in weights[0]]
    [0.0, 1.0, 0.0]

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return first_maximum(scores, mask)
