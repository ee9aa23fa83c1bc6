"""The decoder of RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    c_i  = sum_j a_ij h_j,   a_ij from s_{i-1} and h_j              equations 5 and 6
    s_i  = GRU([E y_{i-1}; c_i], s_{i-1})                           appendix A.2.2
    t~_i = U_o s + V_o E y_{i-1} + C_o c_i
    t_i  = max over neighboring pairs of t~_i
    p(y_i) = softmax(W_o t_i)

Code name -> paper name: `encoder_outputs` -> h, `outputs` -> s, `contexts` -> c, `embedded` ->
E y_{i-1}. The readout uses s_i in section 3.1 and s_{i-1} in A.2.2: see `readout_state`.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    LayerOrConfig,
    Shape,
    Structure,
    TensorDict,
)
from keras_attention.attention import BahdanauAttention
from keras_attention.attention.base import AttentionMechanism
from keras_attention.decoders._maxout_decoder import MaxoutDecoder
from keras_attention.recurrent._cell_adapter import CellAdapter
from keras_attention.recurrent.attention_rnn import AttentionRNN
from keras_attention.recurrent.bahdanau_gru import BahdanauGRUCell
from keras_attention.recurrent.skip_first_update import SkipFirstUpdate


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauDecoder(MaxoutDecoder):
    """Decodes with attention before each update of the state, as in RNNsearch.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, m in the paper.
        units: Positive int, the size n of the state.
        maxout_units: Positive int, the size l of the maxout layer; `units // 2` by default,
            as in the paper.
        attention: A mechanism; `BahdanauAttention(units)` by default.
        recurrent_cell: A cell with one state `(batch, units)` and the input [E y; c], instead of
            `BahdanauGRUCell(units)`: for example a wrapper that adds c in a different way,
            `ContextAddCell` or `AttentionalVectorCell`.
        readout_state: "current" uses s_i after the update (section 3.1, and all later models);
            "previous" uses s_{i-1} and updates with y_i afterwards, as the authors' code does.
        dropout: Float in [0, 1), applied to the embedding and to the maxout layer.
        start_id: The id whose embedding is the zero vector, like y_0 in the paper;
            None embeds it like any other.
        kernel_initializer: Initializer of the input kernels and the readout.
        recurrent_initializer: Initializer of the recurrent matrices.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`,
        `initial_state=None` (here `(batch, units)`), `memory_mask=None`, `training`,
        `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `key`
        `(batch, source, units)`, `value` `(batch, source, memory_dim)` and `mask`
        `(batch, source)`. State: a dict of `cell`, a list of `(rows, units)` (and, with
        readout_state="previous", `(rows, 1)`), and `position` `(rows,)`; with "previous"
        also `feedback`, `(rows, memory_dim)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = BahdanauDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> ids, annotations = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 6, 8))
    >>> logits, alignment = decoder(ids, annotations, return_attention_scores=True)
    >>> tuple(logits.shape), tuple(alignment.shape)
    ((1, 3, 11), (1, 3, 6))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, section 3.1, A.2.2.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        maxout_units: int | None = None,
        attention: AttentionMechanism | Config | None = None,
        recurrent_cell: LayerOrConfig | None = None,
        readout_state: str = "current",
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
        self.readout_state: str = validation.check_one_of(
            "BahdanauDecoder", "readout_state", readout_state, ("current", "previous")
        )
        if attention is None:
            attention = BahdanauAttention(units, dtype=self.dtype_policy, name="attention")
        if recurrent_cell is None:
            recurrent_cell = BahdanauGRUCell(
                units,
                kernel_initializer=self.kernel_initializer,
                recurrent_initializer=self.recurrent_initializer,
                dtype=self.dtype_policy,
                name="cell",
            )
        adapter = CellAdapter("BahdanauDecoder", recurrent_cell)
        if adapter.output_dim != self.units:
            raise ValueError(
                "BahdanauDecoder expects `recurrent_cell` to have a state of "
                f"`units`={self.units}. Received: a state of {adapter.output_dim}"
            )
        cell = adapter.cell
        # `recurrence`, which precedes it, contains it in files of weights.
        self.recurrent_cell: keras.layers.Layer = cell
        previous = readout_state == "previous"
        self.recurrence: AttentionRNN = AttentionRNN(
            SkipFirstUpdate(cell, dtype=self.dtype_policy) if previous else cell,
            attention,
            order="luong" if previous else "bahdanau",
            input_feeding=previous,
            attentional_units=0 if previous else None,
            dtype=self.dtype_policy,
            name="recurrence",
        )
        self.attention: AttentionMechanism = self.recurrence.attention

    def build_readout(self, leading: Shape, memory_dim: int) -> None:
        super().build_readout(leading, self.recurrence.context_dim)

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        if self.readout_state == "previous" and initial_state is not None:
            state = keras.tree.flatten(initial_state)[0]
            initial_state = [state, ops.zeros((get_shape(state)[0], 1), dtype=state.dtype)]
        return self.recurrence.start(memory, initial_state)

    def check_initial_state(self, initial_state: Structure) -> None:
        """Raises `ValueError` unless `initial_state` is None or `(batch, units)`."""
        previous = self.readout_state == "previous"
        adapter = self.recurrence.cell.adapter if previous else self.recurrence.adapter
        adapter.check_state(initial_state, type(self).__name__)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "recurrent_cell": keras.saving.serialize_keras_object(self.recurrent_cell),
            "readout_state": self.readout_state,
        }
