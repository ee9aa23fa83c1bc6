"""`TranslationPipeline`: a translator's model and tokenizers, from text to ids and back."""

import tensorflow as tf

from keras_attention.decoders import get_decoder_start_id, start_decoder
from keras_attention.export._connect_encoder_decoder import standardize_encoder_outputs
from keras_attention.export._source_joiner import make_source_joiner
from keras_attention.export._tf_functions import (
    append_eos,
    make_source_mask,
    make_tf_function,
    match_static_batch,
)
from keras_attention.export._translator_checks import COPYING_DECODERS
from keras_attention.export.tokenizers import CopiedWords
from keras_attention.export.tokenizers.base import BOS_ID, EOS_ID, PADDING_ID, UNKNOWN_ID
from keras_attention.kernels.execution_mode import is_compiled_by_xla

IDS = tf.TensorSpec([None, None], tf.int32, name="ids")
MASKED_LOGIT = -1e9


class TranslationPipeline:
    """Encoder, decoder and tokenizers of a translator, as the signatures use them.

    It must not be a `tf.Module`: SavedModel would follow its attributes to the Keras model and
    store every variable twice.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        max_source_length: Maximum source length in tokens, EOS not included; longer sources are
            truncated. None for no limit.
        max_length: Maximum output length in tokens, EOS included.

    Attributes:
        source, target, max_source_length, max_length: See above.
        start_id: The id that the decoder reads first.
        num_logits: Number of logits of a step, at least the size of the target vocabulary.
        copied_words: The `CopiedWords` of a decoder that copies words of the source, or None.
        source_joiner: The `SourceJoiner` of an encoder that reads several sources, or None.
    """

    def __init__(self, model, source, target, max_source_length, max_length):
        encoder, self._decoder = model.get_layer("encoder"), model.get_layer("decoder")
        self._encoder = encoder
        # Traced once, so that all signatures share one stored graph.
        self._traced_encoder = make_tf_function(self._run_encoder, IDS)
        self.num_logits = model.output.shape[-1]
        self.source, self.target = source, target
        self.max_source_length, self.max_length = max_source_length, max_length
        self.start_id = get_decoder_start_id(self._decoder)
        self.copied_words = None
        self.source_joiner = make_source_joiner(encoder, source)
        self._num_source_ids, self._num_ids = source.vocabulary_size, target.vocabulary_size
        if isinstance(self._decoder, COPYING_DECODERS):
            self.copied_words = CopiedWords(
                source, self._decoder.num_copied_words, max_source_length
            )
            self._num_source_ids = self._num_ids = self.copied_words.num_ids

    def _run_encoder(self, ids):
        return self._encoder(ids, training=False)

    def start_decoding(self, ids, length):
        """Runs the encoder on source ids that end with EOS.

        Returns:
            The decoder's initial `state` and its `memory`.
        """
        # XLA traces the encoder again: its products may have no kernel outside of XLA.
        encode = self._run_encoder if is_compiled_by_xla() else self._traced_encoder
        known, copied = ids, {}
        if self.copied_words is not None:
            known, copied = self._decoder.replace_copied_ids(ids), {"copy_ids": ids}
        encoded = standardize_encoder_outputs("A translator", encode(known))
        encoded = tf.nest.map_structure(lambda t: match_static_batch(t, ids), encoded)
        mask = make_source_mask(ids, length)
        memory = self._decoder.prepare(encoded["memory"], memory_mask=mask, **copied)
        state = start_decoder(self._decoder, memory, encoded.get("initial_state"), self.max_length)
        return state, memory

    def step(self, ids, state, memory):
        """Runs the decoder's step, and masks the logits beyond the vocabulary."""
        logits, state, alignment = self._decoder.step(ids, state, memory)
        if self.num_logits != self._num_ids:
            in_vocabulary = tf.range(tf.shape(logits)[-1]) < self._num_ids
            logits = tf.where(in_vocabulary, logits, MASKED_LOGIT)
        return logits, state, alignment

    def tokenize_source(self, text):
        """Returns the ids `(B, S)` of texts and their lengths, both with EOS."""
        # Truncate before padding: one long text must not widen the other examples.
        ids, length = self.source.encode(text, self.max_source_length)
        if self.copied_words is not None:
            ids = self.copied_words.number(ids, text)
        return self.prepare_source(ids, length)

    def tokenize_target(self, targets, text, max_length=None):
        """Returns the ids of targets, EOS last, for the sources `text`; cut off if `max_length`."""
        ids, length = self.target.encode(targets, max_length)
        if self.copied_words is not None:
            ids = self.copied_words.number_targets(ids, targets, text)
        return append_eos(ids, length)

    def prepare_source(self, ids, length):
        """Returns source ids as in training, and their lengths, both with EOS.

        `length` alone determines where an example ends. Inside it, padding, BOS, EOS and
        out-of-vocabulary ids become unknown. Ids beyond it are ignored.
        """
        length = tf.clip_by_value(length, 0, tf.shape(ids)[1])
        if self.max_source_length is not None:
            length = tf.minimum(length, self.max_source_length)
        special = (ids == PADDING_ID) | (ids == BOS_ID) | (ids == EOS_ID)
        ids = tf.where(special | (ids < 0) | (ids >= self._num_source_ids), UNKNOWN_ID, ids)
        return append_eos(ids, length), length + 1

    def get_source_tokens(self, ids, text):
        """Returns the token of each source id `(B, S)`."""
        if self.copied_words is not None:
            return self.copied_words.get_tokens(ids, text)
        return self.source.ids_to_tokens(ids)

    def get_target_tokens(self, ids, text):
        """Returns the token of each target id `(B, ...)` for the sources `text`."""
        if self.copied_words is not None:
            return self.copied_words.get_tokens(ids, text)
        return self.target.ids_to_tokens(ids)

    def decode_beams(self, ids):
        """Returns the texts `(B, N)` of ids `(B, N, T)`."""
        shape = tf.shape(ids)
        # The sizes are explicit: -1 would be ambiguous if T is 0.
        flat = tf.reshape(ids, [shape[0] * shape[1], shape[2]])
        return tf.reshape(self.target.decode(flat), [shape[0], ids.shape[1] or shape[1]])
