"""The decoder of Seq2Seq, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215).

    h_t    = LSTM(E y_{t-1}, h_{t-1})       stacked; h_0 of every layer is the encoder's last
    p(y_t) = softmax(W_o h_t + b_o)         of the top layer

Section 3: "<EOS>" ends the source and is the decoder's first input. Code name -> paper name:
`initial_state` -> the state of the encoder, `embedded` -> E y_{t-1}.
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
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.recurrent._lstm_cells import make_lstm_cells
from keras_attention.recurrent._rnn_without_attention import RNNWithoutAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class Seq2SeqDecoder(RecurrentDecoder):
    """Decodes from the final state of an encoder alone; without attention.

    All information about the source passes through `initial_state`. The memory only provides the
    batch size and the source length. The alignment is 0 everywhere.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the target embedding.
        units: Positive int, the size of every layer's state.
        num_layers: Positive int, the number of stacked LSTM cells; 4 in the paper.
        cells: Optional cell or list of cells to use instead of LSTMs.
        dropout: Float in [0, 1), applied to the embedding, between layers and to the top
            layer.
        decoder_start_id: The id of the first input: the EOS token, as in the paper. 2 is BOS.
        start_id: An id whose embedding is the zero vector, or None.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, which start with `decoder_start_id`,
        `encoder_outputs`, `initial_state=None` (the cells': for a stack of LSTMs a list of
        `[h, c]`, each `(batch, units)`, bottom first), `memory_mask=None`, `training`,
        `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `mask`
        `(batch, source)`. State: a dict of `cell`, the cells' lists, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = Seq2SeqDecoder(vocabulary_size=11, embedding_dim=3, units=4, num_layers=2)
    >>> ids, states = keras.ops.array([[3, 5, 7]]), keras.ops.ones((1, 6, 4))
    >>> last = keras.ops.ones((1, 4))
    >>> tuple(decoder(ids, states, initial_state=[[last, last], [last, last]]).shape)
    (1, 3, 11)

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.
    """

    has_attention = False

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        num_layers: int = 1,
        cells: Cell | None = None,
        dropout: float = 0.0,
        decoder_start_id: int = 3,
        start_id: int | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        owner = "Seq2SeqDecoder"
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.num_layers: int = validation.check_positive_int(owner, "num_layers", num_layers)
        self.decoder_start_id: int = validation.check_int_at_least(
            owner, "decoder_start_id", decoder_start_id, 1
        )
        if cells is None:
            cells = make_lstm_cells(
                units, num_layers, dropout, self.derive_seed(2), self.dtype_policy
            )
        self.recurrence: RNNWithoutAttention = RNNWithoutAttention(
            cells, dtype=self.dtype_policy, name="recurrence"
        )
        self.cells: list[keras.layers.Layer] = self.recurrence.adapter.cells

    def build_readout(self, leading: Shape, context_dim: int) -> None:
        self.logits.build((*leading, self.recurrence.adapter.output_dim))

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
            "decoder_start_id": self.decoder_start_id,
        }
