"""The functions a served translator answers with, as TensorFlow graphs.

Every dimension 0 is the batch; nothing is a scalar, ragged, infinite or NaN; a row's answer
does not depend on the other rows, except for padding up to the longest of them.
"""

import functools

import tensorflow as tf

from keras_attention.decoding import beam_search, greedy_search, sample_search, score_sequences
from keras_attention.export.graphs import (
    end_after,
    for_any_batch,
    in_parts,
    largest,
    one_or_many,
    real_tokens,
    traced,
)
from keras_attention.export.row_penalty import RowLengthPenalty
from keras_attention.export.search_memory import check_search_memory
from keras_attention.export.translating import IDS, Translating

LENGTH = tf.TensorSpec([None], tf.int32, name="length")
TEXT = tf.TensorSpec([None], tf.string, name="text")
TARGET = tf.TensorSpec([None], tf.string, name="target")
LENGTH_PENALTY = tf.TensorSpec([None], tf.float32, name="length_penalty")
TARGET_IDS = tf.TensorSpec([None, None], tf.int32, name="target_ids")
MAX_LENGTH = tf.TensorSpec([None], tf.int32, name="max_length")
SEED = tf.TensorSpec([None], tf.int32, name="seed")
TEMPERATURE = tf.TensorSpec([None], tf.float32, name="temperature")
HOTTEST = 100.0
INPUTS = {
    "serving_default": (TEXT,),
    "translate_with_alignment": (TEXT,),
    "ids": (IDS, LENGTH),
    "greedy": (TEXT,),
    "score": (TEXT, TARGET),
    "search": (TEXT, LENGTH_PENALTY, MAX_LENGTH),
    "sample": (TEXT, SEED, TEMPERATURE),
}


class TranslatorFunctions:
    """The signatures of a translator: a method each, named as clients ask for it.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        max_source_length: Longest source in tokens, the end mark not counted; what is
            longer loses its end. None for no limit.
        max_length: Longest output in tokens, the end mark counted.
        search_options: Dict of further arguments of `beam_search`.
        greedy_options: Dict of further arguments of `greedy_search` and `sample_search`.
        compilation: A `Compilation` whose programs run the searches, None for plain graphs.

    Attributes:
        translating: A `Translating`, the model with its tokenizers.
    """

    def __init__(
        self,
        model,
        source,
        target,
        max_source_length,
        max_length,
        search_options,
        greedy_options,
        compilation=None,
    ):
        translating = Translating(model, source, target, max_source_length, max_length)
        self.translating, self._compilation = translating, compilation
        first = {"start_id": translating.start_id}
        self._search_options = {**search_options, **first}
        self._greedy_options, self._score_options = {**greedy_options, **first}, first
        if "beam_width" in search_options:
            width, ngram = (search_options.get(key) for key in ("beam_width", "no_repeat_ngram"))
            check_search_memory(translating, width, ngram, compilation)

    # Traced once each, so that signatures that search alike share one stored graph, and only if
    # a signature asks for it.

    @functools.cached_property
    def _search(self):
        return self._searching(self._beam_search)

    @functools.cached_property
    def _search_aligned(self):
        return self._searching(self._beam_search_aligned)

    @functools.cached_property
    def _search_greedily(self):
        return self._searching(self._greedy_search, least_rows=2)

    @functools.cached_property
    def _search_by_row(self):
        return in_parts(self._beam_search_by_row, IDS, LENGTH, LENGTH_PENALTY, MAX_LENGTH)

    @functools.cached_property
    def _draw(self):
        return in_parts(self._sample_search, IDS, LENGTH, SEED, TEMPERATURE)

    @functools.cached_property
    def _rescore(self):
        return in_parts(self._score_sequences, IDS, LENGTH, TARGET_IDS)

    def _searching(self, function, **compiled):
        if self._compilation is None:
            return one_or_many(function, IDS, LENGTH)
        return self._compilation.in_buckets(function, **compiled)

    def signatures(self) -> dict:
        """Name -> `tf.function`."""
        return {name: traced(getattr(self, name), *inputs) for name, inputs in INPUTS.items()}

    def serving_default(self, text):
        """`text (B,)` -> n-best `text (B, N)` and `score (B, N)`, best first."""
        return for_any_batch(self._serving_default, text)

    def translate_with_alignment(self, text):
        """`text (B,)` -> the n-best with tokens and the weights between them and the source."""
        return for_any_batch(self._translate_with_alignment, text)

    def ids(self, ids, length):
        """`ids (B, S)`, `length (B,)` -> n-best `ids (B, N, T)`, `length` and `score (B, N)`."""
        return for_any_batch(self._ids, ids, length)

    def greedy(self, text):
        """`text (B,)` -> `text`, `log_prob` and `length`, all `(B,)`: the likeliest next token."""
        return for_any_batch(self._greedy, text)

    def score(self, text, target):
        """`text (B,)`, `target (B,)` -> log p(target | text), whole and token by token."""
        return for_any_batch(self._score, text, target)

    def search(self, text, length_penalty, max_length):
        """`text`, `length_penalty`, `max_length`, all `(B,)` -> the n-best as each row asks."""
        return for_any_batch(self._search_as_asked, text, length_penalty, max_length)

    def sample(self, text, seed, temperature):
        """`text`, `seed`, `temperature`, all `(B,)` -> `text`, `log_prob` and `length`, `(B,)`."""
        return for_any_batch(self._sample, text, seed, temperature)

    def _serving_default(self, text):
        found = _cut(self._search(*self.translating.source_ids(text)))
        return {"text": self.translating.texts(found["ids"]), "score": found["score"]}

    def _translate_with_alignment(self, text):
        source_ids, source_length = self.translating.source_ids(text)
        found = _cut(self._search_aligned(source_ids, source_length))
        return {
            "text": self.translating.texts(found["ids"]),
            "score": found["score"],
            "tokens": self.translating.target.tokens(found["ids"]),
            "length": found["length"],
            "alignment": found["alignment"],
            "source_tokens": self.translating.source.tokens(source_ids),
            "source_length": source_length,
        }

    def _ids(self, ids, length):
        return _cut(self._search(*self.translating.with_end(ids, length)))

    def _greedy(self, text):
        return self._spelled(self._search_greedily(*self.translating.source_ids(text)))

    def _sample(self, text, seed, temperature):
        # Finite whatever a request says; one that is no number is as good as 0.
        temperature = tf.where(tf.math.is_nan(temperature), 0.0, temperature)
        temperature = tf.clip_by_value(temperature, 0.0, HOTTEST)
        return self._spelled(self._draw(*self.translating.source_ids(text), seed, temperature))

    def _sample_search(self, ids, length, seed, temperature):
        state, memory = self.translating.encode(ids, length)
        found = sample_search(
            self.translating.step,
            state,
            memory,
            seed=seed,
            temperature=temperature,
            max_length=self.translating.max_length,
            return_alignments=False,
            **self._greedy_options,
        )
        return _answer_of_one(found)

    def _spelled(self, found):
        """A single hypothesis a row, as text."""
        return {
            "text": self.translating.target.decode(found["ids"]),
            "log_prob": found["log_prob"],
            "length": found["length"],
        }

    def _score(self, text, target):
        longest = self.translating.max_length
        ids, length = self.translating.target.encode(target, longest)
        ids = end_after(ids, length)[:, :longest]
        return self._rescore(*self.translating.source_ids(text), ids)

    def _score_sequences(self, ids, length, target_ids):
        state, memory = self.translating.encode(ids, length)
        found = score_sequences(
            self.translating.step,
            state,
            memory,
            target_ids,
            return_alignments=False,
            **self._score_options,
        )
        return {
            "log_prob": tf.cast(found["log_probs"], tf.float32),
            "token_log_prob": tf.cast(found["token_log_probs"], tf.float32),
            "length": tf.cast(found["lengths"], tf.int32),
        }

    def _search_as_asked(self, text, length_penalty, max_length):
        source = self.translating.source_ids(text)
        found = _cut(self._search_by_row(*source, length_penalty, max_length))
        return {
            "text": self.translating.texts(found["ids"]),
            "score": found["score"],
            "length": found["length"],
        }

    def _beam_search_by_row(self, ids, length, length_penalty, max_length):
        """Searches with a penalty and a limit for each row."""
        penalty = RowLengthPenalty(length_penalty)
        return _answer(self._found(ids, length, length_penalty=penalty, row_max_length=max_length))

    def _beam_search(self, ids, length):
        """Searches for sources that carry their end mark; without alignments, which cost."""
        return _answer(self._found(ids, length))

    def _beam_search_aligned(self, ids, length):
        """The same with alignments."""
        found = self._found(ids, length, return_alignments=True)
        return _answer(found) | {"alignment": tf.cast(found["alignments"], tf.float32)}

    def _greedy_search(self, ids, length):
        state, memory = self.translating.encode(ids, length)
        found = greedy_search(
            self.translating.step,
            state,
            memory,
            max_length=self.translating.max_length,
            return_alignments=False,
            **self._greedy_options,
        )
        return _answer_of_one(found)

    def _found(self, ids, length, return_alignments=False, **options):
        state, memory = self.translating.encode(ids, length)
        return beam_search(
            self.translating.step,
            state,
            memory,
            max_length=self.translating.max_length,
            memory_mask=real_tokens(ids, length),
            return_alignments=return_alignments,
            reorder=self.translating.reorder,
            **(self._search_options | options),
        )


def _answer(found):
    """What a search found, under the names and dtypes of a signature."""
    return {
        "ids": tf.cast(found["ids"], tf.int32),
        "length": tf.cast(found["lengths"], tf.int32),
        "score": tf.cast(found["scores"], tf.float32),
    }


def _answer_of_one(found):
    """The same of a search with one hypothesis a row."""
    return {
        "ids": tf.cast(found["ids"], tf.int32),
        "length": tf.cast(found["lengths"], tf.int32),
        "log_prob": tf.cast(found["log_probs"], tf.float32),
    }


def _cut(found):
    """`found` without the columns that no hypothesis fills."""
    longest = largest(tf.reshape(found["length"], [-1]))
    wide = {name: found[name][:, :, :longest] for name in ("ids", "alignment") if name in found}
    return found | wide
