"""The decoder of Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    h_t  = LSTM([E y_{t-1}; h~_{t-1}], h_{t-1})        stacked; input feeding, section 3.3
    c_t  = sum_s a_t(s) hs_s,   a_t from h_t           equation 7
    h~_t = tanh(W_c [c_t; h_t])                        equation 5
    p(y_t) = softmax(W_s h~_t)                         equation 6

Code name -> paper name: `encoder_outputs` -> hs, `outputs` -> h~, `embedded` -> E y_{t-1}.
"""

from typing import Unpack

import keras

from keras_attention import validation
from keras_attention._utils.tensor_types import (
    Cell,
    Config,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.attention import LuongAttention
from keras_attention.attention.base import AttentionMechanism
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.recurrent._lstm_cells import make_lstm_cells
from keras_attention.recurrent.attention_rnn import AttentionRNN


@keras.saving.register_keras_serializable(package="keras_attention")
class LuongDecoder(RecurrentDecoder):
    """Decodes with attention after each update of the state, as in Luong et al.

    Without input feeding, no recurrence depends on the attention, and training attends from all
    target positions at once.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the target embedding.
        units: Positive int, the size of every layer's state and of h~.
        num_layers: Positive int, the number of stacked LSTM cells.
        cells: Optional cell or list of cells to use instead of LSTMs.
        attention: A mechanism; `LuongAttention("general")` by default.
        input_feeding: Whether h~_{t-1} is fed to the first layer beside E y_{t-1}.
        dropout: Float in [0, 1), applied to the embedding, between layers and to h~.
        start_id: An id whose embedding is the zero vector, or None: the paper embeds its
            start symbol like any other.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`,
        `initial_state=None` (the cell's: for a stack of LSTMs a list of `[h, c]`, each
        `(batch, units)`, bottom first), `memory_mask=None`, `training`,
        `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `key`, `value`
        and `mask`, as the attention prepares them. State: a dict of `cell`, the cells'
        lists, `position` `(rows,)` and, with input feeding, `feedback` `(rows, units)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = LuongDecoder(vocabulary_size=11, embedding_dim=3, units=4, num_layers=2)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 6, 4))
    >>> logits, alignment = decoder(ids, states, return_attention_scores=True)
    >>> tuple(logits.shape), tuple(alignment.shape)
    ((1, 3, 11), (1, 3, 6))

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, sections 3.1 and 3.3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        num_layers: int = 1,
        cells: Cell | None = None,
        attention: AttentionMechanism | Config | None = None,
        input_feeding: bool = True,
        dropout: float = 0.0,
        start_id: int | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        owner = "LuongDecoder"
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.num_layers: int = validation.check_positive_int(owner, "num_layers", num_layers)
        if cells is None:
            cells = make_lstm_cells(
                units, num_layers, dropout, self.derive_seed(2), self.dtype_policy
            )
        if attention is None:
            attention = LuongAttention("general", dtype=self.dtype_policy, name="attention")
        self.recurrence: AttentionRNN = AttentionRNN(
            cells,
            attention,
            order="luong",
            input_feeding=input_feeding,
            attentional_units=self.units,
            dtype=self.dtype_policy,
            name="recurrence",
        )
        self.cells: list[keras.layers.Layer] = self.recurrence.adapter.cells
        self.attention: AttentionMechanism = self.recurrence.attention
        self.input_feeding: bool = self.recurrence.input_feeding

    def build_readout(self, leading: Shape, memory_dim: int) -> None:
        self.logits.build((*leading, self.units))

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        return self.logits(self.readout_dropout(outputs, training=training))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "cells": self.recurrence.adapter.config,
            "attention": keras.saving.serialize_keras_object(self.attention),
            "input_feeding": self.input_feeding,
        }
