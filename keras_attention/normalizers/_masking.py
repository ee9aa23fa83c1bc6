"""Masking shared by all normalizers: before normalizing, and again on the weights."""

from keras import ops

#: Below any unmasked score, even one with an added bias of -1e9. Finite in float32, so that a
#: fully masked query does not become NaN.
MASKED_SCORE = -3e38


def mask_scores(scores, mask):
    """Returns the scores with MASKED_SCORE where the mask is False, whatever their value."""
    if mask is None:
        return scores
    return ops.where(mask, scores, ops.cast(MASKED_SCORE, scores.dtype))


def apply_mask(weights, mask):
    """Returns the weights with exactly 0 where the mask is False."""
    return weights if mask is None else weights * ops.cast(mask, weights.dtype)
