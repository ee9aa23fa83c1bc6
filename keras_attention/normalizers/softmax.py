"""The masked softmax, first used for attention by Bahdanau et al. 2015
(https://arxiv.org/abs/1409.0473, equation 6).

    s' = where(mask, scores, -1e9)        e = exp(s' - max s') * mask        w = e / sum e

A row with nothing to keep has e = 0 everywhere; the sum is then replaced by a tiny
number, so that its weights are exactly 0 and their gradient is 0, not NaN.
"""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer

MASKED_SCORE = -1e9
TINY = 1e-9  # a row with a kept key sums to at least 1


def masked_softmax(scores, mask=None):
    """Returns softmax weights over the last axis; masked positions get exactly 0."""
    if mask is None:
        return ops.softmax(scores, axis=-1)
    kept = ops.cast(mask, scores.dtype)
    scores = ops.where(mask, scores, ops.cast(MASKED_SCORE, scores.dtype))
    exponentials = ops.exp(scores - ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True)))
    exponentials = exponentials * kept
    return exponentials / ops.maximum(ops.sum(exponentials, axis=-1, keepdims=True), TINY)


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxNormalizer(Normalizer):
    """Turns scores into weights that are positive and sum to 1 over the kept keys.

    The softmax is taken in float32 (float64 for float64 scores) and cast back. Where
    every key of a row is masked the weights are exactly 0.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.

    Returns:
        Weights of the shape and dtype of `scores`.

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
