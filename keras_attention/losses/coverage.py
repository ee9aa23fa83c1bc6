"""The coverage loss, See et al. 2017 (https://arxiv.org/abs/1704.04368).

    c^t       = sum_{t' < t} a^{t'}                                  equation 10
    covloss_t = sum_i min(a_i^t, c_i^t)                              equation 12

Code name -> paper name: `weights` -> a, `coverage` -> c, `loss_weight` -> lambda.
"""

import keras
from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.losses._alignment_loss import AlignmentLoss


def coverage_penalty(
    weights: TensorLike, mask: TensorLike | None = None, source_mask: TensorLike | None = None
) -> Tensor:
    """Returns the coverage loss, averaged over the real steps of all batch elements.

    Args:
        weights: Float tensor `(batch, query, key)`.
        mask: Optional boolean `(batch, query)`, True for real steps.
        source_mask: Optional boolean `(batch, key)`, True for real locations.

    Returns:
        A scalar, float32 (float64 for float64 weights); 0 without a real step.

    Example: the second step attends again to what the first one did, in part.

    >>> weights = keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]])
    >>> round(float(coverage_penalty(weights)), 6)
    0.3
    """
    weights = zero_masked(at_least_float32(weights), mask)
    coverage = ops.cumsum(weights, axis=1) - weights
    repeated = zero_masked(ops.swapaxes(ops.minimum(weights, coverage), 1, 2), source_mask)
    real = ops.ones_like(weights[:, :, 0])
    if mask is not None:
        real = ops.where(mask, real, 0)
    return ops.sum(repeated) / ops.maximum(ops.sum(real), 1)


@keras.saving.register_keras_serializable(package="keras_attention")
class CoverageLoss(AlignmentLoss):
    """Adds the coverage loss of all steps of a decoder; returns the logits.

    Use it if a decoder repeats itself: it makes attending again to the same place costly. See et
    al. add it together with `CoverageScorer`, after training without either. Like weight decay,
    the loss is also added in evaluation.

    Args:
        loss_weight: Number of at least 0, the lambda; the authors use 1.

    Call arguments:
        logits: Float tensor, returned unchanged.
        weights: Float tensor `(batch, query, key)`: the alignment.
        mask: Boolean `(batch, query)`, True for real steps.
        source_mask: Boolean `(batch, key)`, True for real locations.

    Returns:
        `logits`, unchanged.

    Raises:
        ValueError: If `loss_weight` is negative, or the shapes do not fit.

    Masking: masked steps and locations are not in the loss. A mask attached to `weights` is
        ignored; one attached to `logits` is propagated.

    Example:

    >>> loss = CoverageLoss(loss_weight=0.5)
    >>> logits = keras.ops.ones((1, 2, 7))
    >>> logits = loss(logits, keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]]))
    >>> round(float(loss.losses[0]), 6)
    0.15

    Reference: See et al. 2017, https://arxiv.org/abs/1704.04368, section 2.3.
    """

    def compute_penalty(
        self, weights: Tensor, mask: Tensor | None, source_mask: Tensor | None
    ) -> TensorLike:
        return coverage_penalty(weights, mask, source_mask)
