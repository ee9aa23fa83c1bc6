"""What the recurrent decoders share: an embedding, a recurrence and a readout."""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.decoder import Decoder
from keras_attention.hooks import name_missing
from keras_attention.products import Dense


class RecurrentDecoder(Decoder):
    """A target embedding, a recurrence such as `AttentionRNN` and a readout; the base.

    A subclass sets `self.recurrence`, an `AttentionRNN` or an `UnattendedRNN`, and defines
    `build_readout` and `readout`. The methods are those of every `Decoder`.

    Call arguments: see `Decoder`. `initial_state` is the state of the cell before the first
        step, `(batch, units)` or the cell's list; zeros by default. The details are those of
        the attention, for `HardAttention` `log_alpha` and `entropy`.

    Returns:
        Logits `(batch, target, vocabulary_size)`, followed by what was asked for: the
        alignment `(batch, target, source)`, the details. All float32.
    """

    def __init__(
        self, vocabulary_size, embedding_dim, dropout=0.0, start_id=2, seed=None, **kwargs
    ):
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = type(self).__name__
        self.embedding_dim = checks.positive_int(owner, "embedding_dim", embedding_dim)
        self.start_id = start_id
        if start_id is not None:
            checks.int_at_least(owner, "start_id", start_id, 0)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="embedding"
        )
        self.embedding_dropout = self.dropout_layer("embedding_dropout", 0)
        self.readout_dropout = self.dropout_layer("readout_dropout", 1)
        self.logits = Dense(vocabulary_size, dtype=self.dtype_policy, name="logits")

    @property
    def details(self):
        """Names of what the recurrence tells besides outputs and weights."""
        return self.recurrence.details

    def build_layers(self, target_ids_shape, encoder_outputs_shape):
        self.embedding.build(target_ids_shape)
        if not self.recurrence.built:
            inputs_shape = (*target_ids_shape, self.embedding_dim)
            self.recurrence.build(inputs_shape, encoder_outputs_shape)
        self.build_readout(target_ids_shape, encoder_outputs_shape[-1])

    def build_readout(self, leading, memory_dim):
        """Builds what `readout` uses; `leading` is the shape before the last axis."""
        name_missing(self, RecurrentDecoder, "build_readout", "builds what `readout` uses")

    def readout(self, embedded, outputs, contexts, training=None):
        """Returns logits in the compute dtype; all tensors of rank 2 or all of rank 3."""
        name_missing(self, RecurrentDecoder, "readout", "returns logits")

    def embed(self, ids, training=None):
        """Returns embedded ids; `start_id`, if it is not None, embeds to the zero vector."""
        embedded = self.embedding(ids)
        if self.start_id is not None:
            embedded = ops.where(ops.expand_dims(ids == self.start_id, -1), 0, embedded)
        return self.embedding_dropout(embedded, training=training)

    def check_initial_state(self, initial_state):
        """Raises `ValueError` unless `initial_state` is None or what the cell begins with."""
        self.recurrence.adapter.check_state(initial_state, type(self).__name__)

    def prepare_memory(self, encoder_outputs, memory_mask):
        return self.recurrence.prepare(encoder_outputs, memory_mask)

    def start_state(self, memory, initial_state, max_length):
        return self.recurrence.start(memory, initial_state)

    def read_one(self, ids, state, memory):
        embedded = self.embed(ids)
        output, context, weights, state = self.recurrence.step(embedded, state, memory)
        return self.readout(embedded, output, context), state, weights

    def read_all(
        self, target_ids, encoder_outputs, initial_state, memory_mask, training, with_weights
    ):
        memory = self.prepare(encoder_outputs, memory_mask)
        state = self.start(memory, initial_state)
        embedded = self.embed(target_ids, training)
        outputs, contexts, weights, details, _ = self.recurrence.run(
            embedded, state, memory, training=training
        )
        return self.readout(embedded, outputs, contexts, training), weights, details

    def get_config(self):
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "start_id": self.start_id,
        }
