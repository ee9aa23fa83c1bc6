"""How every normalizer reads a mask: before normalizing, and once more on the weights."""

from keras import ops

#: Below any score that is kept, be it one with an added bias of -1e9; finite in float32, so that a
#: row of nothing else does not become NaN.
MASKED_SCORE = -3e38


def masked_scores(scores, mask):
    """Returns the scores with MASKED_SCORE where the mask is False, whatever stood there."""
    if mask is None:
        return scores
    return ops.where(mask, scores, ops.cast(MASKED_SCORE, scores.dtype))


def silenced(weights, mask):
    """Returns the weights with exactly 0 where the mask is False."""
    return weights if mask is None else weights * ops.cast(mask, weights.dtype)
