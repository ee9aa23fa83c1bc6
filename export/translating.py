"""A translator's model and tokenizers, put together: text to memory, and a step over it."""

import tensorflow as tf

from keras_attention.export.contract import encoder_outputs
from keras_attention.export.graphs import end_after, real_tokens, traced, with_rows
from keras_attention.export.tokenizers.base import END_ID, PADDING_ID, START_ID, UNKNOWN_ID
from keras_attention.products import compiled_by_xla
from keras_attention.protocol import first_id, reordering, started

IDS = tf.TensorSpec([None, None], tf.int32, name="ids")
MASKED_LOGIT = -1e9


class Translating:
    """Encoder, decoder and tokenizers of a translator, as the signatures use them.

    A plain object on purpose: were it a `tf.Module` attribute, SavedModel would follow it
    to the Keras model and store every variable a second time.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        max_source_length: Longest source in tokens, the end mark not counted; what is
            longer loses its end. None for no limit.
        max_length: Longest output in tokens, the end mark counted.

    Attributes:
        source, target, max_source_length, max_length: See above.
        start_id: What the decoder reads first.
        num_logits: Number of logits of a step, the vocabulary of the target or more.
        reorder: How the decoder's state follows the beams.
    """

    def __init__(self, model, source, target, max_source_length, max_length):
        encoder, self._decoder = model.get_layer("encoder"), model.get_layer("decoder")
        self._encoder = encoder
        # Traced once, so that all signatures share one stored graph of it.
        self._stored_encoder = traced(self._encode, IDS)
        self.num_logits = model.output.shape[-1]
        self.source, self.target = source, target
        self.max_source_length, self.max_length = max_source_length, max_length
        self.start_id, self.reorder = first_id(self._decoder), reordering(self._decoder)

    def _encode(self, ids):
        return self._encoder(ids, training=False)

    def encode(self, ids, length):
        """The decoder's `state` and `memory` for sources that carry their end mark."""
        # A program of XLA has its own: it may hold products for which no other kernel is there.
        encode = self._encode if compiled_by_xla() else self._stored_encoder
        encoded = encoder_outputs("A translator", encode(ids))
        encoded = tf.nest.map_structure(lambda t: with_rows(t, ids), encoded)
        memory = self._decoder.prepare(encoded["memory"], memory_mask=real_tokens(ids, length))
        state = started(self._decoder, memory, encoded.get("initial_state"), self.max_length)
        return state, memory

    def step(self, ids, state, memory):
        """The decoder's step, without the logits that no token of the vocabulary has."""
        logits, state, alignment = self._decoder.step(ids, state, memory)
        if self.num_logits != self.target.vocabulary_size:
            known = tf.range(tf.shape(logits)[-1]) < self.target.vocabulary_size
            logits = tf.where(known, logits, MASKED_LOGIT)
        return logits, state, alignment

    def source_ids(self, text):
        """Ids `(B, S)` of texts with their end marks, and their lengths, end mark counted."""
        # Cut before it is padded: one long text must not widen the rows of the others.
        return self.with_end(*self.source.encode(text, self.max_source_length))

    def with_end(self, ids, length):
        """Source ids as the encoder was trained on them, and their lengths, end mark counted.

        Only `length` says where a row ends. Inside it padding, start and end ids and ids
        outside the vocabulary count as unknown; what stands behind it is not looked at.
        """
        length = tf.clip_by_value(length, 0, tf.shape(ids)[1])
        if self.max_source_length is not None:
            length = tf.minimum(length, self.max_source_length)
        special = (ids == PADDING_ID) | (ids == START_ID) | (ids == END_ID)
        ids = tf.where(special, UNKNOWN_ID, self.source.in_vocabulary(ids))
        return end_after(ids, length), length + 1

    def texts(self, ids):
        """Ids `(B, N, T)` -> texts `(B, N)`."""
        shape = tf.shape(ids)
        # Not -1 for the rows: with no column they could not be told.
        flat = tf.reshape(ids, [shape[0] * shape[1], shape[2]])
        return tf.reshape(self.target.decode(flat), [shape[0], ids.shape[1] or shape[1]])
