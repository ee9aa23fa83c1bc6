"""The decoder of the RNN encoder-decoder, Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

    c    = tanh(V h_S)                                         h_S at the last real token
    h'_0 = tanh(V' c)
    h'_t = GRU([e(y_{t-1}); c], h'_{t-1})                      see `cho_gru`
    s'_t = O_h h'_t + O_y e(y_{t-1}) + O_c c
    s_t  = max over neighboring pairs of s'_t
    p(y_t | y_1 .. y_{t-1}, c) = softmax(G s_t),   G = G_l G_r if it should be small

Section 2.2 and appendix A.1.2. Code name -> paper name: `encoder_outputs` -> h, `summary` -> V,
`initial_state_dense` -> V', `embedded` -> e(y_{t-1}), `contexts` -> c, `low_rank` -> G_r.
"""

from typing import Unpack

import keras

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders._maxout_decoder import MaxoutDecoder
from keras_attention.recurrent._rnn_without_attention import RNNWithoutAttention
from keras_attention.recurrent.cho_gru import ChoGRUCell


@keras.saving.register_keras_serializable(package="keras_attention")
class ChoDecoder(MaxoutDecoder):
    """Decodes from a summary vector of the source at every step; without attention.

    The summary is a layer over the memory's last real position. So use any encoder whose last
    position depends on the whole source; the paper's is a forward gated unit. The alignment is 0
    everywhere.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, m in the paper.
        units: Positive int, the size n of the state.
        summary_units: Positive int, the size of the summary c; `units` by default, as in the
            paper.
        maxout_units: Positive int, the size k of the maxout layer; `units // 2` by default,
            as in the paper.
        reset_covers_context: Whether the reset gate also covers C c; see `ChoGRUCell`.
        output_rank: Positive int, the inner size of a factored output matrix G = G_l G_r; None,
            the default, for an unfactored one.
        dropout: Float in [0, 1), applied to the embedding and to the maxout layer.
        start_id: The id whose embedding is the zero vector, like y_0 in the paper;
            None embeds it like any other.
        kernel_initializer: Initializer of the input kernels and the readout.
        recurrent_initializer: Initializer of the recurrent matrices.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`,
        `initial_state=None` (`(batch, units)`; tanh(V' c) by default), `memory_mask=None`,
        `training`, `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `context`
        `(batch, summary_units)`, of `projected_context` `(batch, 4 * units)`, its contribution to
        the gates (3 if reset_covers_context is False), and of `mask` `(batch, source)`. State: a
        dict of `cell`, a list of `(rows, units)`, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = ChoDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 6, 8))
    >>> logits, alignment = decoder(ids, states, return_attention_scores=True)
    >>> tuple(logits.shape), float(keras.ops.max(alignment))
    ((1, 3, 11), 0.0)

    Reference: Cho et al. 2014, https://arxiv.org/abs/1406.1078, section 2.2, A.1.2.
    """

    has_attention = False

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        summary_units: int | None = None,
        maxout_units: int | None = None,
        reset_covers_context: bool = True,
        output_rank: int | None = None,
        dropout: float = 0.0,
        start_id: int | None = 2,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            vocabulary_size,
            embedding_dim,
            units,
            maxout_units,
            dropout,
            start_id,
            kernel_initializer,
            recurrent_initializer,
            seed,
            **kwargs,
        )
        owner = "ChoDecoder"
        summary_units = units if summary_units is None else summary_units
        self.summary_units: int = validation.check_positive_int(
            owner, "summary_units", summary_units
        )
        self.reset_covers_context: bool = bool(reset_covers_context)
        self.output_rank = output_rank
        self.low_rank: keras.layers.Layer | None = None
        if output_rank is not None:
            validation.check_positive_int(owner, "output_rank", output_rank)
            self.low_rank = self._dense("low_rank", output_rank, 6, use_bias=False)
        cell = ChoGRUCell(
            units,
            self.summary_units,
            reset_covers_context,
            kernel_initializer=self.kernel_initializer,
            recurrent_initializer=self.recurrent_initializer,
            dtype=self.dtype_policy,
            name="cell",
        )
        summary = self._dense("summary", self.summary_units, 4, activation="tanh")
        self.recurrence: RNNWithoutAttention = RNNWithoutAttention(
            cell, summary, dtype=self.dtype_policy, name="recurrence"
        )
        self.initial_state_dense: keras.layers.Layer = self._dense(
            "initial_state_dense", units, 5, activation="tanh"
        )

    def _dense(self, name, units, index, **options):
        initializer = derive_initializer(self.kernel_initializer, index)
        options = {"kernel_initializer": initializer, "dtype": self.dtype_policy, **options}
        return keras.layers.Dense(units, name=name, **options)

    def build_readout(self, leading: Shape, context_dim: int) -> None:
        self.initial_state_dense.build((leading[0], self.summary_units))
        if self.low_rank is not None:
            self.low_rank.build((*leading, self.maxout_units))
            self.logits.build((*leading, self.output_rank))
        super().build_readout(leading, self.summary_units)

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        hidden = self.compute_maxout(embedded, outputs, contexts, training)
        return self.logits(hidden if self.low_rank is None else self.low_rank(hidden))

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        if initial_state is None:
            initial_state = self.initial_state_dense(memory["context"])
        return super().start_state(memory, initial_state, max_length)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "summary_units": self.summary_units,
            "reset_covers_context": self.reset_covers_context,
            "output_rank": self.output_rank,
        }
