"""The decoder of Seq2Seq, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215).

    h_t    = LSTM(E y_{t-1}, h_{t-1})       stacked; h_0 of every layer is the encoder's last
    p(y_t) = softmax(W_o h_t + b_o)         of the top layer

Section 3: "<EOS>" closes the source and is what the decoder reads first. Code name -> paper name:
`initial_state` -> the state of the encoder, `embedded` -> E y_{t-1}.
"""

import keras

from keras_attention import checks
from keras_attention.recurrent.decoder import RecurrentDecoder
from keras_attention.recurrent.lstm_cells import lstm_cells
from keras_attention.recurrent.unattended import UnattendedRNN


@keras.saving.register_keras_serializable(package="keras_attention")
class Seq2SeqDecoder(RecurrentDecoder):
    """Decodes from the last state of an encoder alone; without attention.

    What the source says must pass through `initial_state`; the memory only tells how many
    rows and positions there are. The alignment is 0 everywhere.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the target embedding.
        units: Positive int, the size of every layer's state.
        num_layers: Positive int, the number of stacked LSTM cells; 4 in the paper.
        cells: Optional cell or list of cells to use instead of LSTMs.
        dropout: Float in [0, 1), dropped from the embedding, between layers and from the top
            layer.
        first_id: The id that is read first: the end id, as in the paper. 2 for a start id.
        start_id: An id whose embedding is the zero vector, or None.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, which begin with `first_id`,
        `encoder_outputs`, `initial_state=None` (the cells': for a stack of LSTMs a list of
        `[h, c]`, each `(batch, units)`, bottom first), `memory_mask=None`, `training`,
        `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `mask`
        `(batch, source)`. State: a dict of `cell`, the cells' lists, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is not as above, or an id lies outside the vocabulary.

    Example:

    >>> decoder = Seq2SeqDecoder(vocabulary_size=11, embedding_dim=3, units=4, num_layers=2)
    >>> ids, states = keras.ops.array([[3, 5, 7]]), keras.ops.ones((1, 6, 4))
    >>> last = keras.ops.ones((1, 4))
    >>> tuple(decoder(ids, states, initial_state=[[last, last], [last, last]]).shape)
    (1, 3, 11)

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        units,
        num_layers=1,
        cells=None,
        dropout=0.0,
        first_id=3,
        start_id=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        owner = "Seq2SeqDecoder"
        self.units = checks.positive_int(owner, "units", units)
        self.num_layers = checks.positive_int(owner, "num_layers", num_layers)
        self.first_id = checks.int_at_least(owner, "first_id", first_id, 1)
        if cells is None:
            cells = lstm_cells(units, num_layers, dropout, self.seed_of(2), self.dtype_policy)
        self.recurrence = UnattendedRNN(cells, dtype=self.dtype_policy, name="recurrence")
        self.cells = self.recurrence.adapter.cells

    def build_readout(self, leading, context_dim):
        self.logits.build((*leading, self.recurrence.adapter.output_dim))

    def readout(self, embedded, outputs, contexts, training=None):
        return self.logits(self.readout_dropout(outputs, training=training))

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "cells": self.recurrence.adapter.config,
            "first_id": self.first_id,
        }
