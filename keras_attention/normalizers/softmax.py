"""The masked softmax, first used for attention by Bahdanau et al. 2015
(https://arxiv.org/abs/1409.0473, equation 6).

    s' = where(mask, s, -3e38)        w = exp(s' - max s') / sum exp(s' - max s') * mask

Next to an unmasked score the exponential of -3e38 is 0, so the product with the mask matters only
for fully masked queries: their weights are exactly 0, and so is the gradient of their scores.
"""

import keras
from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.normalizers._masking import apply_mask, mask_scores
from keras_attention.normalizers.base import Normalizer


def masked_softmax(scores: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """Returns softmax weights over the last axis; masked positions get exactly 0."""
    scores = mask_scores(scores, mask)
    if scores.shape[-1] == 1:  # Keras warns about a softmax over one key, which is valid here
        return apply_mask(ops.exp(scores - scores), mask)
    return apply_mask(ops.softmax(scores, axis=-1), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxNormalizer(Normalizer):
    """Turns scores into positive weights that sum to 1 over the unmasked keys.

    The softmax is computed in float32 (float64 under that policy) and cast back. Fully masked
    queries get weights of exactly 0.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.

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

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        return masked_softmax(scores, mask)
