"""Soft attention with a gate, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    e_ti   = w . tanh(W_a a_i + W_h h_{t-1} + b)                    equation 4, f_att
    phi_t  = sum_i alpha_ti a_i,   alpha_t = softmax(e_t)           equation 13
    z_t    = sigmoid(w_b . h_{t-1} + b_b) phi_t                     section 4.2.1, the gate
    lambda * sum_i (1 - sum_t alpha_ti)^2                           equation 14, the penalty

Code name -> paper name: `query` -> h_{t-1} (the **previous** decoder state), `value` -> a_i,
`weights` -> alpha, `context` -> z_t.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Config, Initializer, LayerOptions
from keras_attention.attention._show_attend_tell_attention import ShowAttendTellAttention
from keras_attention.losses.doubly_stochastic import doubly_stochastic_penalty
from keras_attention.normalizers.base import Normalizer


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftAttention(ShowAttendTellAttention):
    """Attention to a weighted mean of all locations, with a gate on the context.

    Use it over the locations of an image, as Show, Attend and Tell does. The gate lets the
    decoder scale attention down for words that do not depend on the image. The penalty makes
    the steps together cover every location.

    Args:
        units: Positive int, the width that query and key are projected to.
        use_gate: Whether to multiply the context by a number between 0 and 1 that is computed
            from the query.
        doubly_stochastic: Number of at least 0, the lambda of the penalty; the authors use 1.
            Every call with queries of rank 3 adds the penalty as a loss. A loop over steps
            (`attend`, `AttentionRNN`) cannot add one: pass its weights to
            `DoublyStochasticLoss`.
        doubly_stochastic_target: Number, the target for the sum of a location's weights. It is
            1 in the paper; the average location can reach that only if there are as many
            steps as locations.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
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

    Masking: as in every mechanism; the penalty excludes masked queries and locations that are
        masked for every query.

    Example:

    >>> attention = SoftAttention(units=8, doubly_stochastic=1.0)
    >>> states, image = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 4, 5))
    >>> context, weights = attention(states, image, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 5), (2, 3, 4))
    >>> [round(float(loss), 6) for loss in attention.losses]  # 4 locations at (1 - 3 / 4)^2
    [0.25]

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, sections 4.2 and 4.2.1.
    """

    def __init__(
        self,
        units: int,
        use_gate: bool = True,
        doubly_stochastic: float = 0.0,
        doubly_stochastic_target: float = 1.0,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
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
        self.doubly_stochastic: float = validation.check_number_in_range(
            "SoftAttention", "doubly_stochastic", doubly_stochastic, 0
        )
        self.doubly_stochastic_target: float = validation.check_number_in_range(
            "SoftAttention", "doubly_stochastic_target", doubly_stochastic_target
        )
        self.is_recomputable = not self.doubly_stochastic

    def _read_scores(self, scores, query, value, request):
        context, weights, auxiliary_outputs = super()._read_scores(scores, query, value, request)
        has_all_queries = request.is_layer_call and request.has_all_queries
        if self.doubly_stochastic and has_all_queries:
            self.add_loss(self._penalty(weights, request))
        return self.apply_gate(query, context), weights, auxiliary_outputs

    def _penalty(self, weights, request):
        """Returns the loss; the weights of masked queries are 0 and do not contribute."""
        sizes = get_shape(weights)
        readable = request.mask(sizes[1], sizes[2])
        if readable is not None:
            readable = ops.any(ops.broadcast_to(readable, sizes), axis=1)
        penalty = doubly_stochastic_penalty(
            weights, source_mask=readable, target=self.doubly_stochastic_target
        )
        return self.doubly_stochastic * penalty

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **self.get_gate_config(),
            **self.get_pieces_config(),
            "doubly_stochastic": self.doubly_stochastic,
            "doubly_stochastic_target": self.doubly_stochastic_target,
        }
