"""The doubly stochastic penalty, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    lambda * sum_i (target - sum_t alpha_ti)^2                      equation 14, target 1

The weights of a step sum to 1 over the locations; the penalty pulls those of a location to a sum of
`target` over the steps. Only real steps and real locations count; the authors' code also sums
padded steps. Code name -> paper name: `weights` -> alpha, `loss_weight` -> lambda.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import broadcast_mask
from keras_attention._utils.tensor_types import Config, LayerOptions, Tensor, TensorLike
from keras_attention.losses._alignment_loss import AlignmentLoss
from keras_attention.losses._masking import batch_mean


def doubly_stochastic_penalty(
    weights: TensorLike,
    mask: TensorLike | None = None,
    source_mask: TensorLike | None = None,
    target: float = 1.0,
) -> Tensor:
    """Returns the penalty, averaged over the batch elements with any real step or location.

    Args:
        weights: Float tensor `(batch, query, key)`.
        mask: Optional boolean `(batch, query)`, True for real steps.
        source_mask: Optional boolean `(batch, key)`, True for real locations.
        target: Number, the target for the sum of a location's weights.

    Returns:
        A scalar, float32 (float64 for float64 weights).

    Example:

    >>> weights = keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]])
    >>> round(float(doubly_stochastic_penalty(weights)), 6)
    0.42
    """
    weights = at_least_float32(weights)
    mask = broadcast_mask(mask, weights)
    sums = ops.sum(zero_masked(weights, mask), axis=1)
    source_mask = broadcast_mask(source_mask, sums)
    squared_errors = zero_masked(ops.square(target - zero_masked(sums, source_mask)), source_mask)
    valid = None
    for one_mask in (mask, source_mask):
        if one_mask is not None:
            has_valid = ops.any(one_mask, axis=-1)
            valid = has_valid if valid is None else ops.logical_and(valid, has_valid)
    return batch_mean(ops.sum(squared_errors, axis=-1), valid)


@keras.saving.register_keras_serializable(package="keras_attention")
class DoublyStochasticLoss(AlignmentLoss):
    """Adds the doubly stochastic penalty for all steps of a decoder; returns the logits.

    Use it after a recurrent decoder, whose loop cannot add a loss: it gets the alignment of all
    steps. `SoftAttention(doubly_stochastic=...)` does the same for a call without a loop. Like
    weight decay, the loss is also added in evaluation.

    Args:
        loss_weight: Number of at least 0, the lambda; the authors use 1.
        target: Number, the target for the sum of a location's weights.

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

    >>> loss = DoublyStochasticLoss(loss_weight=0.5)
    >>> logits = keras.ops.ones((1, 2, 7))
    >>> logits = loss(logits, keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]]))
    >>> round(float(loss.losses[0]), 6)
    0.21

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.2.1.
    """

    def __init__(
        self, loss_weight: float = 1.0, target: float = 1.0, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(loss_weight, **kwargs)
        self.target: float = validation.check_number_in_range(
            "DoublyStochasticLoss", "target", target
        )

    def compute_penalty(
        self, weights: Tensor, mask: Tensor | None, source_mask: Tensor | None
    ) -> TensorLike:
        return doubly_stochastic_penalty(weights, mask, source_mask, self.target)

    def get_config(self) -> Config:
        return {**super().get_config(), "target": self.target}
