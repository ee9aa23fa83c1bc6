"""Soft attention with a gate, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    e_ti   = w . tanh(W_a a_i + W_h h_{t-1} + b)                    equation 4, f_att
    phi_t  = sum_i alpha_ti a_i,   alpha_t = softmax(e_t)           equation 13
    z_t    = sigmoid(w_b . h_{t-1} + b_b) phi_t                     section 4.2.1, the gate
    lambda * sum_i (1 - sum_t alpha_ti)^2                           equation 14, the penalty

Code name -> paper name: `query` -> h_{t-1} (the **previous** decoder state), `value` -> a_i,
`weights` -> alpha, `context` -> z_t.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.losses.doubly_stochastic import doubly_stochastic_penalty
from keras_attention.mechanisms.gated import GatedAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftAttention(GatedAttention):
    """Attention that reads a weighted mean of all locations, and a gate on what it read.

    Use it over the locations of a picture, as Show, Attend and Tell does. The gate lets the
    decoder turn attention down for words that need no look at the picture; the penalty makes
    all looks together cover every location.

    Args:
        units: Positive int, the size query and key are projected to.
        use_gate: Whether the context is multiplied by a number between 0 and 1 that the
            query decides.
        doubly_stochastic: Number of at least 0, the lambda of the penalty; the authors use 1.
            The penalty is added as a loss, by every call with queries of rank 3. A loop over
            steps (`attend`, `AttentionRNN`) cannot add one: give its weights to
            `DoublyStochasticLoss`.
        doubly_stochastic_target: Number, what the weights of a location should sum to. It is 1
            in the paper, which no location can reach on average unless there are as many
            steps as locations.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the share of weights dropped while training.
        kernel_initializer: Initializer of both projections and of the gate.
        vector_initializer: Initializer of the vector w.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: as in every mechanism; the penalty counts neither masked queries nor locations
        that no query may read.

    Example:

    >>> attention = SoftAttention(units=8, doubly_stochastic=1.0)
    >>> states, picture = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 4, 5))
    >>> context, weights = attention(states, picture, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 5), (2, 3, 4))
    >>> [round(float(loss), 6) for loss in attention.losses]  # 4 locations at (1 - 3 / 4)^2
    [0.25]

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, sections 4.2 and 4.2.1.
    """

    def __init__(
        self,
        units,
        use_gate=True,
        doubly_stochastic=0.0,
        doubly_stochastic_target=1.0,
        normalizer="softmax",
        dropout=0.0,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(
            units,
            use_gate,
            kernel_initializer,
            vector_initializer,
            normalizer,
            dropout,
            seed,
            **kwargs,
        )
        self.doubly_stochastic = checks.number_in_range(
            "SoftAttention", "doubly_stochastic", doubly_stochastic, 0
        )
        self.doubly_stochastic_target = checks.number_in_range(
            "SoftAttention", "doubly_stochastic_target", doubly_stochastic_target
        )

    def _read(self, query, prepared, reading):
        context, weights, details = super()._read(query, prepared, reading)
        if self.doubly_stochastic and reading.whole:
            self.add_loss(self._penalty(weights, reading))
        return self.gated(query, context), weights, details

    def _penalty(self, weights, reading):
        """Returns the loss; the weights of masked queries are 0 and count for nothing."""
        sizes = ops.shape(weights)
        readable = reading.mask(sizes[1], sizes[2])
        if readable is not None:
            readable = ops.any(ops.broadcast_to(readable, sizes), axis=1)
        penalty = doubly_stochastic_penalty(
            weights, source_mask=readable, target=self.doubly_stochastic_target
        )
        return self.doubly_stochastic * penalty

    def get_config(self):
        return {
            **super().get_config(),
            **self.gated_config(),
            **self.pieces_config(),
            "doubly_stochastic": self.doubly_stochastic,
            "doubly_stochastic_target": self.doubly_stochastic_target,
        }
