"""The signatures of a served translator, as TensorFlow graphs.

Dimension 0 of every tensor is the batch. No tensor is a scalar or ragged, and no output contains
infinities or NaN. Apart from padding, an example's outputs do not depend on the other examples in
its batch.
"""

import dataclasses
import functools

import tensorflow as tf

from keras_attention.export._per_example_length_penalty import PerExampleLengthPenalty
from keras_attention.export._pipeline import IDS, TranslationPipeline
from keras_attention.export._required_phrases import (
    MAX_PHRASE_TOKENS,
    MAX_PHRASES,
    encode_phrase_lines,
)
from keras_attention.export._streamed_signatures import make_streamed_signatures
from keras_attention.export._tf_functions import (
    make_signature,
    make_source_mask,
    max_or_zero,
    run_in_chunks,
    specialize_single_example,
)
from keras_attention.export._unknown_words import UnknownWordReplacer
from keras_attention.search import beam_search, greedy_search, sample_search, score_sequences
from keras_attention.search.beam import PADDING_SCORE

LENGTH = tf.TensorSpec([None], tf.int32, name="length")
TEXT = tf.TensorSpec([None], tf.string, name="text")
TARGET = tf.TensorSpec([None], tf.string, name="target")
PHRASES = tf.TensorSpec([None], tf.string, name="phrases")
PHRASE_IDS = tf.TensorSpec([None, MAX_PHRASES, MAX_PHRASE_TOKENS], tf.int32, name="phrase_ids")
LENGTH_PENALTY = tf.TensorSpec([None], tf.float32, name="length_penalty")
TARGET_IDS = tf.TensorSpec([None, None], tf.int32, name="target_ids")
MAX_LENGTH = tf.TensorSpec([None], tf.int32, name="max_length")
SEED = tf.TensorSpec([None], tf.int32, name="seed")
TEMPERATURE = tf.TensorSpec([None], tf.float32, name="temperature")
MAX_TEMPERATURE = 100.0
INPUTS = {
    "serving_default": (TEXT,),
    "translate_with_alignment": (TEXT,),
    "ids": (IDS, LENGTH),
    "greedy": (TEXT,),
    "score": (TEXT, TARGET),
    "search": (TEXT, LENGTH_PENALTY, MAX_LENGTH),
    "sample": (TEXT, SEED, TEMPERATURE),
    "beam_tree": (TEXT,),  # only with `return_tree`
    "translate_with_phrases": (TEXT, PHRASES),  # only with `phrases`
}  # and `translate_sources` of `list_inputs`
PADDING, ALIVE, ENDED = 0, 1, 2  # states of the hypotheses of a tree


def list_inputs(pipeline):
    """Returns the inputs of each signature that a translator can have, by name."""
    joiner = pipeline.source_joiner
    return INPUTS if joiner is None else INPUTS | {"translate_sources": joiner.inputs}


class TranslatorSignatures:
    """The signatures of a translator; each is computed by a method with the signature's name.

    The methods expect at least one example; `get_function` adds the checks of the batch.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        search_options: The `SearchOptions`, as `resolve_search_options` returns them. `beam_tree`
            exists only if `search_options.options.return_tree`; the other signatures never build
            the tree. `translate_with_phrases` exists only if `search_options.phrases`, and
            `translate_sources` only if the encoder reads several sources.
        xla_buckets: An `XLABuckets` whose programs run the searches; None for graphs without XLA.

    Attributes:
        pipeline: A `TranslationPipeline`, the model with its tokenizers.
        unknown_words: The `UnknownWordReplacer` of all texts that are searched, or None.
    """

    def __init__(self, model, source, target, search_options, xla_buckets=None):
        self.pipeline = TranslationPipeline(
            model, source, target, search_options.max_source_length, search_options.max_length
        )
        absent = {"beam_tree": not search_options.options.return_tree}
        absent["translate_with_phrases"] = not search_options.phrases
        self._names = [name for name in list_inputs(self.pipeline) if not absent.get(name)]
        beam_options = dataclasses.replace(search_options.options, return_tree=False)
        self._search_options = dataclasses.replace(search_options, options=beam_options)
        self._xla_buckets = xla_buckets
        self.unknown_words = None
        replacement = search_options.replace_unknown
        if replacement is not False:
            dictionary = replacement if replacement is not True else None
            self.unknown_words = UnknownWordReplacer(
                source, target, dictionary, search_options.max_source_length
            )

    # Each property below is a traced search. It is traced once, on first use, so that signatures
    # with the same search share one graph.

    @functools.cached_property
    def _traced_beam_search(self):
        return self._wrap_search(self._beam_search)

    @functools.cached_property
    def _traced_beam_search_with_alignment(self):
        return self._wrap_search(self._beam_search_with_alignment)

    @functools.cached_property
    def _traced_greedy_search(self):
        return self._wrap_search(self._greedy_search)

    @functools.cached_property
    def _traced_beam_search_per_example(self):
        return run_in_chunks(self._beam_search_per_example, IDS, LENGTH, LENGTH_PENALTY, MAX_LENGTH)

    @functools.cached_property
    def _traced_sample_search(self):
        return run_in_chunks(self._sample_search, IDS, LENGTH, SEED, TEMPERATURE)

    @functools.cached_property
    def _traced_beam_search_with_tree(self):
        return run_in_chunks(self._beam_search_with_tree, IDS, LENGTH)

    @functools.cached_property
    def _traced_beam_search_with_phrases(self):
        return run_in_chunks(self._beam_search_with_phrases, IDS, LENGTH, PHRASE_IDS)

    @functools.cached_property
    def _traced_score_sequences(self):
        return run_in_chunks(self._score_sequences, IDS, LENGTH, TARGET_IDS)

    def _wrap_search(self, function):
        if self._xla_buckets is None:
            return specialize_single_example(function, IDS, LENGTH)
        return self._xla_buckets.compile_in_buckets(function)

    def signatures(self) -> dict:
        """Returns the `tf.function` of each signature, by name."""
        functions = {name: self.get_function(name) for name in self._names}
        return functions | (make_streamed_signatures(self) if self._search_options.stream else {})

    def get_function(self, name):
        """Returns a new `tf.function` of the signature `name`, which accepts any batch."""
        return make_signature(getattr(self, name), *list_inputs(self.pipeline)[name])

    def choose_search_function(self, name, mask):
        """Returns the search function of `serving_default` or `greedy`, and its arguments.

        Args:
            name: Name of the signature.
            mask: The mask of the source.
        """
        needs_alignments = self.unknown_words is not None
        shared = {
            "max_length": self._search_options.max_length,
            "constraints": self._search_options.constraints,
            "fusion": self._search_options.fusion,
            "return_alignments": needs_alignments,
        }
        if name == "greedy":
            return greedy_search, shared
        return beam_search, shared | {
            "beam_width": self._search_options.beam_width,
            "length_penalty": self._search_options.length_penalty,
            "options": dataclasses.replace(self._search_options.options, memory_mask=mask),
        }

    def format_results(self, name, found, text):
        """Returns the results of the search function of a signature as the signature's outputs."""
        if name == "greedy":
            return self._format_text(_to_served_names(found, "log_prob"), text)
        found = _trim_columns(_to_served_names(found, "score"))
        return {"text": self.decode(found, text), "score": found["score"]}

    def serving_default(self, text):
        """`text (B,)` -> n-best `text (B, N)` and `score (B, N)`, best first."""
        needs_alignment = self.unknown_words is not None
        search = (
            self._traced_beam_search_with_alignment if needs_alignment else self._traced_beam_search
        )
        found = _trim_columns(search(*self.pipeline.tokenize_source(text)))
        return {"text": self.decode(found, text), "score": found["score"]}

    def translate_with_alignment(self, text):
        """`text (B,)` -> the n-best with tokens and attention weights over the source."""
        source = self.pipeline.tokenize_source(text)
        found = self._traced_beam_search_with_alignment(*source)
        return self._format_with_alignment(found, *source, text)

    def ids(self, ids, length):
        """`ids (B, S)`, `length (B,)` -> n-best `ids (B, N, T)`, `length` and `score (B, N)`."""
        return _trim_columns(self._traced_beam_search(*self.pipeline.prepare_source(ids, length)))

    def greedy(self, text):
        """`text (B,)` -> `text`, `log_prob` and `length`, all `(B,)`, by greedy search."""
        found = self._traced_greedy_search(*self.pipeline.tokenize_source(text))
        return self._format_text(found, text)

    def score(self, text, target):
        """`text (B,)`, `target (B,)` -> log p(target | text), in total and for each token."""
        longest = self.pipeline.max_length
        ids = self.pipeline.tokenize_target(target, text, longest)[:, :longest]
        return self._traced_score_sequences(*self.pipeline.tokenize_source(text), ids)

    def search(self, text, length_penalty, max_length):
        """`text`, `length_penalty`, `max_length`, all `(B,)` -> the n-best."""
        source = self.pipeline.tokenize_source(text)
        found = self._traced_beam_search_per_example(*source, length_penalty, max_length)
        return self._format_n_best(found, text)

    def sample(self, text, seed, temperature):
        """`text`, `seed`, `temperature`, all `(B,)` -> `text`, `log_prob` and `length`, `(B,)`."""
        # NaN is treated as 0, and infinity is clipped.
        temperature = tf.where(tf.math.is_nan(temperature), 0.0, temperature)
        temperature = tf.clip_by_value(temperature, 0.0, MAX_TEMPERATURE)
        source = self.pipeline.tokenize_source(text)
        return self._format_text(self._traced_sample_search(*source, seed, temperature), text)

    def beam_tree(self, text):
        """`text (B,)` -> the hypotheses of each step: `tokens`, `parent`, ..., `(B, T, 2 N)`."""
        found = self._traced_beam_search_with_tree(*self.pipeline.tokenize_source(text))
        longest = max_or_zero(found["length"])
        found |= {name: found[name][:, :longest] for name in ("ids", "parent", "log_prob", "state")}
        return {"tokens": self.pipeline.get_target_tokens(found.pop("ids"), text), **found}

    def translate_with_phrases(self, text, phrases):
        """`text (B,)`, `phrases (B,)`, one per line -> the n-best that contain them."""
        phrase_ids = encode_phrase_lines(phrases, self.pipeline.target, self._search_options)
        source = self.pipeline.tokenize_source(text)
        found = self._traced_beam_search_with_phrases(*source, phrase_ids)
        return self._format_n_best(found, text)

    def translate_with_phrase_ids(self, text, phrase_ids):
        """Like `translate_with_alignment`, but every hypothesis contains the phrases.

        For `Translator` only; it is not exported as a signature.

        Args:
            text: String tensor `(B,)`.
            phrase_ids: Ids of the phrases of each text, `(B, P, L)`.
        """
        source = self.pipeline.tokenize_source(text)
        found = self._beam_search_with_phrases(*source, phrase_ids, return_alignments=True)
        return self._format_with_alignment(found, *source, text)

    def translate_sources(self, *texts):
        """A text `(B,)` of each source -> the n-best of `serving_default` for all together."""
        return self.serving_default(self.pipeline.source_joiner.join(*texts))

    def _format_with_alignment(self, found, source_ids, source_length, text):
        """Returns the outputs of a search, with tokens and attention weights over the source."""
        found = _trim_columns(found)
        return {
            "text": self.decode(found, text),
            "score": found["score"],
            "tokens": self.pipeline.get_target_tokens(found["ids"], text),
            "length": found["length"],
            "alignment": found["alignment"],
            "source_tokens": self.pipeline.get_source_tokens(source_ids, text),
            "source_length": source_length,
        }

    def _sample_search(self, ids, length, seed, temperature):
        state, memory = self.pipeline.start_decoding(ids, length)
        found = sample_search(
            self.pipeline.step,
            state,
            memory,
            seed=seed,
            temperature=temperature,
            max_length=self._search_options.max_length,
            constraints=self._search_options.constraints,
            return_alignments=self.unknown_words is not None,
        )
        return _to_served_names(found, "log_prob")

    def decode(self, found, text):
        """Returns the texts of a search's hypotheses for the sources `text`."""
        if self.unknown_words is not None:
            return self.unknown_words.decode(found["ids"], found["alignment"], text)
        if self.pipeline.copied_words is not None:
            return self.pipeline.copied_words.decode(found["ids"], text)
        is_single = found["ids"].shape.rank == 2
        decode = self.pipeline.target.decode if is_single else self.pipeline.decode_beams
        return decode(found["ids"])

    def _format_text(self, found, text):
        """Returns the outputs of a search with one hypothesis for each example, as text."""
        return {
            "text": self.decode(found, text),
            "log_prob": found["log_prob"],
            "length": found["length"],
        }

    def _score_sequences(self, ids, length, target_ids):
        state, memory = self.pipeline.start_decoding(ids, length)
        found = score_sequences(
            self.pipeline.step,
            state,
            memory,
            target_ids,
            return_alignments=False,
            special_ids=self._search_options.constraints.special_ids,
        )
        return {
            "log_prob": tf.cast(found["log_probs"], tf.float32),
            "token_log_prob": tf.cast(found["token_log_probs"], tf.float32),
            "length": tf.cast(found["lengths"], tf.int32),
        }

    def _format_n_best(self, found, text):
        """Returns the n-best of a search as text, with their scores and lengths."""
        found = _trim_columns(found)
        return {
            "text": self.decode(found, text),
            "score": found["score"],
            "length": found["length"],
        }

    def _beam_search_per_example(self, ids, length, length_penalty, max_length):
        """Searches with a length penalty and a maximum length for each example."""
        found = self._run_beam_search(
            ids,
            length,
            length_penalty=PerExampleLengthPenalty(length_penalty),
            constraints=dataclasses.replace(
                self._search_options.constraints, max_lengths=max_length
            ),
            return_alignments=self.unknown_words is not None,
        )
        return _to_served_names(found, "score")

    def _beam_search_with_phrases(self, ids, length, phrase_ids, return_alignments=None):
        """Searches for hypotheses that contain the phrases `phrase_ids (B, P, L)`.

        Without `return_alignments` it returns alignments if `decode` needs them.
        """
        if return_alignments is None:
            return_alignments = self.unknown_words is not None
        found = self._run_beam_search(
            ids,
            length,
            constraints=dataclasses.replace(self._search_options.constraints, phrases=phrase_ids),
            return_alignments=return_alignments,
        )
        return _to_served_names(found, "score")

    def _beam_search(self, ids, length):
        """Searches for sources that end with EOS; skips the alignments, to save time."""
        return _to_served_names(self._run_beam_search(ids, length), "score")

    def _beam_search_with_alignment(self, ids, length):
        """Searches for sources that end with EOS, with alignments."""
        return _to_served_names(self._run_beam_search(ids, length, return_alignments=True), "score")

    def _beam_search_with_tree(self, ids, length):
        """Searches for sources that end with EOS; returns the tree instead of the n-best."""
        mask = make_source_mask(ids, length)
        options = dataclasses.replace(
            self._search_options.options, memory_mask=mask, return_tree=True
        )
        found = self._run_beam_search(ids, length, options=options)
        log_prob = tf.cast(found["tree_log_probs"], tf.float32)
        is_padding = log_prob <= PADDING_SCORE
        place = tf.range(2 * self._search_options.beam_width)
        state = tf.where(place < self._search_options.beam_width, ALIVE, ENDED)
        is_step = tf.logical_not(tf.reduce_all(is_padding, axis=2))
        return {
            "ids": tf.cast(found["tree_ids"], tf.int32),
            "parent": tf.cast(found["tree_parents"], tf.int32),
            "log_prob": log_prob,
            "state": tf.where(is_padding, PADDING, state),
            "length": tf.reduce_sum(tf.cast(is_step, tf.int32), axis=1),
        }

    def _greedy_search(self, ids, length):
        state, memory = self.pipeline.start_decoding(ids, length)
        search, arguments = self.choose_search_function("greedy", None)
        found = search(self.pipeline.step, state, memory, **arguments)
        return _to_served_names(found, "log_prob")

    def _run_beam_search(self, ids, length, **changes):
        """Returns the results of `beam_search`; `changes` are arguments to use instead."""
        state, memory = self.pipeline.start_decoding(ids, length)
        mask = make_source_mask(ids, length)
        search, arguments = self.choose_search_function("serving_default", mask)
        arguments |= {"return_alignments": False} | changes
        return search(self.pipeline.step, state, memory, **arguments)


def _to_served_names(found, score_name):
    """Renames and casts the results of a search to a signature's outputs.

    `score_name` is `score` for n-best, `log_prob` for one hypothesis.
    """
    outputs = {
        "ids": tf.cast(found["ids"], tf.int32),
        "length": tf.cast(found["lengths"], tf.int32),
        score_name: tf.cast(found[f"{score_name}s"], tf.float32),
    }
    if "alignments" in found:
        outputs["alignment"] = tf.cast(found["alignments"], tf.float32)
    return outputs


def _trim_columns(found):
    """Returns `found` without the columns that are padding in every hypothesis."""
    longest = max_or_zero(tf.reshape(found["length"], [-1]))
    wide = {name: found[name][:, :, :longest] for name in ("ids", "alignment") if name in found}
    return found | wide
