"""The functions a served translator answers with, as TensorFlow graphs.

Every dimension 0 is the batch; nothing is a scalar, ragged, infinite or NaN; a row's answer
does not depend on the other rows, except for padding up to the longest of them.
"""

import tensorflow as tf

from keras_attention.decoding import beam_search, greedy_search, score_sequences
from keras_attention.export.tokenizers.base import END_ID, PADDING_ID, START_ID, UNKNOWN_ID
from keras_attention.protocol import first_id, started

TEXT = tf.TensorSpec([None], tf.string, name="text")
TARGET = tf.TensorSpec([None], tf.string, name="target")
IDS = tf.TensorSpec([None, None], tf.int32, name="ids")
LENGTH = tf.TensorSpec([None], tf.int32, name="length")
MASKED_LOGIT = -1e9


class TranslatorFunctions:
    """Encoder, decoder, tokenizers and search, put together for serving.

    A plain object on purpose: were it a `tf.Module` attribute, SavedModel would follow it
    to the Keras model and store every variable a second time.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        max_source_length: Longest source in tokens, the end mark not counted; what is
            longer loses its end. None for no limit.
        max_length: Longest output in tokens, the end mark counted.
        search_options: Dict of further arguments of `beam_search`.
        greedy_options: Dict of further arguments of `greedy_search`.
    """

    def __init__(
        self, model, source, target, max_source_length, max_length, search_options, greedy_options
    ):
        self._encoder = model.get_layer("encoder")
        self._decoder = model.get_layer("decoder")
        self._logits = model.output.shape[-1]
        self._source, self._target = source, target
        self._max_source_length, self._max_length = max_source_length, max_length
        first = {"start_id": first_id(self._decoder)}
        self._search_options = {**search_options, **first}
        self._greedy_options, self._score_options = {**greedy_options, **first}, first
        # Traced once each, so that signatures that search alike share one stored graph.
        self._search = traced(self._beam_search, IDS, LENGTH)
        self._search_aligned = traced(self._beam_search_aligned, IDS, LENGTH)

    def serving_default(self, text):
        """`text (B,)` -> n-best `text (B, N)` and `score (B, N)`, best first."""
        return _for_any_batch(self._serving_default, text)

    def translate_with_alignment(self, text):
        """`text (B,)` -> the n-best with tokens and the weights between them and the source."""
        return _for_any_batch(self._translate_with_alignment, text)

    def ids(self, ids, length):
        """`ids (B, S)`, `length (B,)` -> n-best `ids (B, N, T)`, `length` and `score (B, N)`."""
        return _for_any_batch(self._ids, ids, length)

    def greedy(self, text):
        """`text (B,)` -> `text`, `log_prob` and `length`, all `(B,)`: the likeliest next token."""
        return _for_any_batch(self._greedy, text)

    def score(self, text, target):
        """`text (B,)`, `target (B,)` -> log p(target | text), whole and token by token."""
        return _for_any_batch(self._score, text, target)

    def _serving_default(self, text):
        found = self._search(*self._source_ids(text))
        return {"text": self._texts(found["ids"]), "score": found["score"]}

    def _translate_with_alignment(self, text):
        source_ids, source_length = self._source_ids(text)
        found = self._search_aligned(source_ids, source_length)
        return {
            "text": self._texts(found["ids"]),
            "score": found["score"],
            "tokens": self._target.tokens(found["ids"]),
            "length": found["length"],
            "alignment": found["alignment"],
            "source_tokens": self._source.tokens(source_ids),
            "source_length": source_length,
        }

    def _ids(self, ids, length):
        return self._search(*self._with_end(ids, length))

    def _greedy(self, text):
        state, memory = self._encode(*self._source_ids(text))
        found = greedy_search(
            self._step,
            state,
            memory,
            max_length=self._max_length,
            return_alignments=False,
            **self._greedy_options,
        )
        return {
            "text": self._target.decode(found["ids"]),
            "log_prob": tf.cast(found["log_probs"], tf.float32),
            "length": tf.cast(found["lengths"], tf.int32),
        }

    def _score(self, text, target):
        state, memory = self._encode(*self._source_ids(text))
        ids, length = self._target.encode(target, self._max_length)
        ids = _end_after(ids, length)[:, : self._max_length]
        found = score_sequences(
            self._step, state, memory, ids, return_alignments=False, **self._score_options
        )
        return {
            "log_prob": tf.cast(found["log_probs"], tf.float32),
            "token_log_prob": tf.cast(found["token_log_probs"], tf.float32),
            "length": tf.cast(found["lengths"], tf.int32),
        }

    def _beam_search(self, ids, length):
        """Searches for sources that carry their end mark; without alignments, which cost."""
        found, longest = self._found(ids, length, return_alignments=False)
        return {
            "ids": tf.cast(found["ids"][:, :, :longest], tf.int32),
            "length": tf.cast(found["lengths"], tf.int32),
            "score": tf.cast(found["scores"], tf.float32),
        }

    def _beam_search_aligned(self, ids, length):
        """The same with alignments."""
        found, longest = self._found(ids, length, return_alignments=True)
        return {
            "ids": tf.cast(found["ids"][:, :, :longest], tf.int32),
            "length": tf.cast(found["lengths"], tf.int32),
            "score": tf.cast(found["scores"], tf.float32),
            "alignment": tf.cast(found["alignments"][:, :, :longest], tf.float32),
        }

    def _found(self, ids, length, return_alignments):
        """What the search found, and the length of the longest hypothesis."""
        state, memory = self._encode(ids, length)
        found = beam_search(
            self._step,
            state,
            memory,
            max_length=self._max_length,
            memory_mask=_mask(ids, length),
            return_alignments=return_alignments,
            **self._search_options,
        )
        return found, _largest(tf.reshape(found["lengths"], [-1]))

    def _encode(self, ids, length):
        """The decoder's `state` and `memory` for sources that carry their end mark."""
        encoded = self._encoder(ids, training=False)
        memory = self._decoder.prepare(encoded["memory"], memory_mask=_mask(ids, length))
        state = started(self._decoder, memory, encoded.get("initial_state"), self._max_length)
        return state, memory

    def _step(self, ids, state, memory):
        """The decoder's step, without the logits that no token of the vocabulary has."""
        logits, state, alignment = self._decoder.step(ids, state, memory)
        if self._logits != self._target.vocabulary_size:
            known = tf.range(tf.shape(logits)[-1]) < self._target.vocabulary_size
            logits = tf.where(known, logits, MASKED_LOGIT)
        return logits, state, alignment

    def _source_ids(self, text):
        # Cut before it is padded: one long text must not widen the rows of the others.
        return self._with_end(*self._source.encode(text, self._max_source_length))

    def _with_end(self, ids, length):
        """Source ids as the encoder was trained on them, and their lengths, end mark counted.

        Only `length` says where a row ends. Inside it padding, start and end ids and ids
        outside the vocabulary count as unknown; what stands behind it is not looked at.
        """
        length = tf.clip_by_value(length, 0, tf.shape(ids)[1])
        if self._max_source_length is not None:
            length = tf.minimum(length, self._max_source_length)
        special = (ids == PADDING_ID) | (ids == START_ID) | (ids == END_ID)
        ids = tf.where(special, UNKNOWN_ID, self._source.in_vocabulary(ids))
        return _end_after(ids, length), length + 1

    def _texts(self, ids):
        shape = tf.shape(ids)
        # Not -1 for the rows: with no column they could not be told.
        flat = tf.reshape(ids, [shape[0] * shape[1], shape[2]])
        return tf.reshape(self._target.decode(flat), [shape[0], ids.shape[1] or shape[1]])


def traced(function, *inputs):
    """Returns `function` as a graph over `inputs`, a `tf.TensorSpec` each.

    Without AutoGraph, which would translate Keras and the search line by line and take four
    times as long: a layer's loops and branches are those of `keras.ops`.
    """
    return tf.function(function, input_signature=inputs, autograph=False)


def _for_any_batch(function, *inputs):
    """Returns what `function` says, also of no rows: decoders are then given one, and it is cut."""
    rows = tf.shape(inputs[0])[0]
    lacking = tf.cast(rows == 0, tf.int32)
    padded = []
    for tensor in inputs:
        blank = tf.zeros(tf.concat([[lacking], tf.shape(tensor)[1:]], axis=0), tensor.dtype)
        padded.append(tf.concat([tensor, blank], axis=0))
    return {name: output[:rows] for name, output in function(*padded).items()}


def _mask(ids, length):
    """True where a source has a token, the end mark included."""
    return tf.sequence_mask(length, tf.shape(ids)[1])


def _end_after(ids, length):
    """`ids (B, S)` -> `(B, longest + 1)`: `length` ids of each row, the end mark, padding."""
    columns = _largest(length) + 1
    ids = tf.pad(ids, [[0, 0], [0, 1]])[:, :columns]
    position = tf.range(columns)[None, :]
    length = length[:, None]
    ends = tf.where(position == length, END_ID, PADDING_ID)
    return tf.where(position < length, ids, ends)


def _largest(length):
    """The largest of `length (rows,)`, 0 if there are no rows."""
    return tf.reduce_max(tf.concat([length, [0]], axis=0))
