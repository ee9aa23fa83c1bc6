"""The doubly stochastic penalty, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    lambda * sum_i (target - sum_t alpha_ti)^2                      equation 14, target 1

The weights of a step sum to 1 over the locations; this asks those of a location to sum to
`target` over the steps. Only real steps and real locations count; the authors' code also sums
padded steps. Code name -> paper name: `weights` -> alpha, `weight` -> lambda.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.losses.masking import batch_mean, silenced
from keras_attention.precision import at_least_float32


def doubly_stochastic_penalty(weights, mask=None, source_mask=None, target=1.0):
    """Returns the penalty, averaged over the batch rows in which anything is real.

    Args:
        weights: Float tensor `(batch, query, key)`.
        mask: Optional boolean `(batch, query)`, True for real steps.
        source_mask: Optional boolean `(batch, key)`, True for real locations.
        target: Number, what the weights of a location should sum to.

    Returns:
        A scalar, float32 (float64 for float64 weights).

    Example:

    >>> weights = keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]])
    >>> round(float(doubly_stochastic_penalty(weights)), 6)
    0.42
    """
    weights = at_least_float32(weights)
    sums = ops.sum(silenced(weights, mask), axis=1)
    missed = silenced(ops.square(target - silenced(sums, source_mask)), source_mask)
    real = None
    for kept in (mask, source_mask):
        if kept is not None:
            some = ops.any(kept, axis=-1)
            real = some if real is None else ops.logical_and(real, some)
    return batch_mean(ops.sum(missed, axis=-1), real)


@keras.saving.register_keras_serializable(package="keras_attention")
class DoublyStochasticLoss(Layer):
    """Adds the doubly stochastic penalty for the weights of a whole loop, and lets logits pass.

    Use it after a recurrent decoder, whose loop can add no loss of its own: it sees the
    alignment of all steps. `SoftAttention(doubly_stochastic=...)` is the same for a call
    without a loop. Like a weight decay, the loss is there in evaluation too.

    Args:
        weight: Number of at least 0, the lambda; the authors use 1.
        target: Number, what the weights of a location should sum to.

    Call arguments:
        logits: Float tensor, returned as it is.
        weights: Float tensor `(batch, query, key)`: the alignment.
        mask: Boolean `(batch, query)`, True for real steps.
        source_mask: Boolean `(batch, key)`, True for real locations.

    Returns:
        `logits`, unchanged.

    Raises:
        ValueError: If `weight` is negative, or the shapes do not fit.

    Masking: what the masks leave out is not in the loss. A mask attached to `weights` is not
        read, one attached to `logits` stays there.

    Example:

    >>> loss = DoublyStochasticLoss(weight=0.5)
    >>> logits = keras.ops.ones((1, 2, 7))
    >>> logits = loss(logits, keras.ops.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]]))
    >>> round(float(loss.losses[0]), 6)
    0.21

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.2.1.
    """

    def __init__(self, weight=1.0, target=1.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # logits pass in their own dtype, the loss is taken in float32
        owner = "DoublyStochasticLoss"
        self.weight = checks.number_in_range(owner, "weight", weight, 0)
        self.target = checks.number_in_range(owner, "target", target)

    def build(self, logits_shape, *args, **kwargs):
        self.built = True

    def call(self, logits, weights, mask=None, source_mask=None):
        mask, source_mask = self._checked_masks(weights, mask, source_mask)
        penalty = doubly_stochastic_penalty(weights, mask, source_mask, self.target)
        self.add_loss(self.weight * penalty)
        return logits

    def _checked_masks(self, weights, mask, source_mask):
        """Returns both masks as booleans, and checks the shapes."""
        owner = "DoublyStochasticLoss"
        checks.rank(owner, "weights", weights, (3,), "(batch, query, key)")
        batch, query, key = weights.shape
        return (
            checks.boolean_mask(owner, "mask", mask, (batch, query), "(batch, query)"),
            checks.boolean_mask(owner, "source_mask", source_mask, (batch, key), "(batch, key)"),
        )

    def compute_mask(self, logits, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, logits_shape, *args, **kwargs):
        return tuple(logits_shape)

    def compute_output_spec(self, logits, weights, mask=None, source_mask=None):
        self._checked_masks(weights, mask, source_mask)
        return keras.KerasTensor(logits.shape, dtype=logits.dtype)

    def get_config(self):
        return {**super().get_config(), "weight": self.weight, "target": self.target}
