"""The masked softmax, first used for attention by Bahdanau et al. 2015
(https://arxiv.org/abs/1409.0473, equation 6).

    s' = where(mask, s, -3e38)        w = exp(s' - max s') / sum exp(s' - max s') * mask

Next to a kept score the exponential of -3e38 is 0, so the product with the mask changes only a row
with nothing to keep: its weights are then exactly 0, and the gradient of its scores is 0.
"""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores, silenced


def masked_softmax(scores, mask=None):
    """Returns softmax weights over the last axis; masked positions get exactly 0."""
    scores = masked_scores(scores, mask)
    if scores.shape[-1] == 1:  # Keras warns of such a softmax, but a source may be one word
        return silenced(ops.exp(scores - scores), mask)
    return silenced(ops.softmax(scores, axis=-1), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxNormalizer(Normalizer):
    """Turns scores into weights that are positive and sum to 1 over the kept keys.

    The softmax is taken in float32 (float64 under that policy) and cast back. Where
    every key of a row is masked the weights are exactly 0.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.

    Returns:
        Weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `mask` is not boolean or does not broadcast to `scores`.

    Example:

    >>> scores = keras.ops.array([[1.0, 1.0, 5.0]])
    >>> mask = keras.ops.array([[True, True, False]])
    >>> [float(weight) for weight in SoftmaxNormalizer()(scores, mask=mask)[0]]
    [0.5, 0.5, 0.0]

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, equation 6.
    """

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return masked_softmax(scores, mask)
