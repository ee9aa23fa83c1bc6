"""The signatures of a served translator, as TensorFlow graphs.

Dimension 0 of every tensor is the batch. No tensor is a scalar, ragged, infinite or NaN. The other
examples of a batch do not change an example's outputs, except for their padding.
"""

import dataclasses
import functools

import tensorflow as tf

from keras_attention.export._length_penalties import PerExampleLengthPenalty
from keras_attention.export._pipeline import IDS, TranslationPipeline
from keras_attention.export._required_phrases import (
    MAX_PHRASE_TOKENS,
    MAX_PHRASES,
    encode_phrase_lines,
)
from keras_attention.export._streamed_signatures import make_streamed_signatures
from keras_attention.export._tf_functions import (
    call_with_any_batch,
    make_source_mask,
    make_tf_function,
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
    "beam_tree": (TEXT,),  # with `return_tree` alone
    "translate_with_phrases": (TEXT, PHRASES),  # with `phrases` alone
}  # and `translate_sources` of `list_inputs`
PADDING, ALIVE, ENDED = 0, 1, 2  # states of the hypotheses of a tree


def list_inputs(pipeline):
    """Returns the inputs of each signature that a translator can have, by name."""
    joiner = pipeline.source_joiner
    return INPUTS if joiner is None else INPUTS | {"translate_sources": joiner.inputs}


class TranslatorSignatures:
    """The signatures of a translator; each is a method with the signature's name.

    Args:
        model: A translator with children `encoder` and `decoder`.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        search: The `SearchOptions`, as `resolve_search_options` returns them. With their
            `return_tree` there is the signature `beam_tree`; the other searches do not use it. With
            their `phrases` there is `translate_with_phrases`. An encoder of several sources adds
            `translate_sources`.
        xla_buckets: An `XLABuckets` whose programs run the searches; None for graphs without XLA.

    Attributes:
        pipeline: A `TranslationPipeline`, the model with its tokenizers.
        unknown_words: The `UnknownWordReplacer` of all texts that are searched, or None.
    """

    def __init__(self, model, source, target, search, xla_buckets=None):
        self.pipeline = TranslationPipeline(
            model, source, target, search.max_source_length, search.max_length
        )
        absent = {"beam_tree": not search.options.return_tree}
        absent["translate_with_phrases"] = not search.phrases
        self._names = [name for name in list_inputs(self.pipeline) if not absent.get(name)]
        options = dataclasses.replace(search.options, return_tree=False)
        self._search, self._compilation = dataclasses.replace(search, options=options), xla_buckets
        self.unknown_words = None
        if search.replace_unknown is not False:
            dictionary = search.replace_unknown if search.replace_unknown is not True else None
            self.unknown_words = UnknownWordReplacer(
                source, target, dictionary, search.max_source_length
            )

    # Each is traced once, on first use, so that signatures with the same search share its graph.

    @functools.cached_property
    def _search_n_best(self):
        return self._wrap_search(self._beam_search)

    @functools.cached_property
    def _search_with_alignment(self):
        return self._wrap_search(self._beam_search_with_alignment)

    @functools.cached_property
    def _search_greedily(self):
        return self._wrap_search(self._greedy_search)

    @functools.cached_property
    def _search_per_example(self):
        return run_in_chunks(self._beam_search_per_example, IDS, LENGTH, LENGTH_PENALTY, MAX_LENGTH)

    @functools.cached_property
    def _draw_samples(self):
        return run_in_chunks(self._sample_search, IDS, LENGTH, SEED, TEMPERATURE)

    @functools.cached_property
    def _search_tree(self):
        return run_in_chunks(self._beam_search_with_tree, IDS, LENGTH)

    @functools.cached_property
    def _search_with_phrases(self):
        return run_in_chunks(self._beam_search_with_phrases, IDS, LENGTH, PHRASE_IDS)

    @functools.cached_property
    def _score_ids(self):
        return run_in_chunks(self._score_sequences, IDS, LENGTH, TARGET_IDS)

    def _wrap_search(self, function):
        if self._compilation is None:
            return specialize_single_example(function, IDS, LENGTH)
        return self._compilation.compile_in_buckets(function)

    def signatures(self) -> dict:
        """Returns the `tf.function` of each signature, by name."""
        inputs = list_inputs(self.pipeline)
        functions = {
            name: make_tf_function(getattr(self, name), *inputs[name]) for name in self._names
        }
        return functions | (make_streamed_signatures(self) if self._search.stream else {})

    def get_search(self, name, mask):
        """Returns the search of `serving_default` or `greedy`, and its arguments.

        Args:
            name: Name of the signature.
            mask: The mask of the source.
        """
        needs_alignments = self.unknown_words is not None
        shared = {
            "max_length": self._search.max_length,
            "constraints": self._search.constraints,
            "fusion": self._search.fusion,
            "return_alignments": needs_alignments,
        }
        if name == "greedy":
            return greedy_search, shared
        return beam_search, shared | {
            "beam_width": self._search.beam_width,
            "length_penalty": self._search.length_penalty,
            "options": dataclasses.replace(self._search.options, memory_mask=mask),
        }

    def format_found(self, name, found, text):
        """Returns the results of the search of a signature as its outputs."""
        if name == "greedy":
            return self._format_text(_format_single_hypothesis(found), text)
        found = _trim_columns(_format_hypotheses(found))
        return {"text": self.decode(found, text), "score": found["score"]}

    def serving_default(self, text):
        """`text (B,)` -> n-best `text (B, N)` and `score (B, N)`, best first."""
        return call_with_any_batch(self._compute_serving_default, text)

    def translate_with_alignment(self, text):
        """`text (B,)` -> the n-best with tokens and attention weights over the source."""
        return call_with_any_batch(self._compute_translate_with_alignment, text)

    def ids(self, ids, length):
        """`ids (B, S)`, `length (B,)` -> n-best `ids (B, N, T)`, `length` and `score (B, N)`."""
        return call_with_any_batch(self._compute_ids, ids, length)

    def greedy(self, text):
        """`text (B,)` -> `text`, `log_prob` and `length`, all `(B,)`, by greedy search."""
        return call_with_any_batch(self._compute_greedy, text)

    def score(self, text, target):
        """`text (B,)`, `target (B,)` -> log p(target | text), in total and for each token."""
        return call_with_any_batch(self._compute_score, text, target)

    def search(self, text, length_penalty, max_length):
        """`text`, `length_penalty`, `max_length`, all `(B,)` -> the n-best."""
        return call_with_any_batch(self._search_as_requested, text, length_penalty, max_length)

    def sample(self, text, seed, temperature):
        """`text`, `seed`, `temperature`, all `(B,)` -> `text`, `log_prob` and `length`, `(B,)`."""
        return call_with_any_batch(self._compute_sample, text, seed, temperature)

    def beam_tree(self, text):
        """`text (B,)` -> the hypotheses of each step: `tokens`, `parent`, ..., `(B, T, 2 N)`."""
        return call_with_any_batch(self._compute_beam_tree, text)

    def translate_with_phrases(self, text, phrases):
        """`text (B,)`, `phrases (B,)`, one a line -> the n-best that contain them."""
        return call_with_any_batch(self._compute_translate_with_phrases, text, phrases)

    def translate_sources(self, *texts):
        """A text `(B,)` of each source -> the n-best of `serving_default` for all together."""
        join = self.pipeline.source_joiner.join
        return call_with_any_batch(lambda *t: self._compute_serving_default(join(*t)), *texts)

    def _compute_serving_default(self, text):
        search = self._search_with_alignment if self.unknown_words else self._search_n_best
        found = _trim_columns(search(*self.pipeline.encode_source(text)))
        return {"text": self.decode(found, text), "score": found["score"]}

    def _compute_translate_with_alignment(self, text):
        source = self.pipeline.encode_source(text)
        return self._format_with_alignment(self._search_with_alignment(*source), *source, text)

    def translate_with_phrase_ids(self, text, phrases):
        """As `translate_with_alignment`, with `phrases (B, P, L)` in each output; no signature."""
        source = self.pipeline.encode_source(text)
        found = self._beam_search_with_phrases(*source, phrases, return_alignments=True)
        return self._format_with_alignment(found, *source, text)

    def _compute_translate_with_phrases(self, text, phrases):
        phrases = encode_phrase_lines(phrases, self.pipeline.target, self._search)
        source = self.pipeline.encode_source(text)
        return self._format_n_best(self._search_with_phrases(*source, phrases), text)

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

    def _compute_ids(self, ids, length):
        return _trim_columns(self._search_n_best(*self.pipeline.prepare_source(ids, length)))

    def _compute_greedy(self, text):
        found = self._search_greedily(*self.pipeline.encode_source(text))
        return self._format_text(found, text)

    def _compute_sample(self, text, seed, temperature):
        # NaN is treated as 0, and infinity is clipped.
        temperature = tf.where(tf.math.is_nan(temperature), 0.0, temperature)
        temperature = tf.clip_by_value(temperature, 0.0, MAX_TEMPERATURE)
        source = self.pipeline.encode_source(text)
        return self._format_text(self._draw_samples(*source, seed, temperature), text)

    def _sample_search(self, ids, length, seed, temperature):
        state, memory = self.pipeline.encode(ids, length)
        found = sample_search(
            self.pipeline.step,
            state,
            memory,
            seed=seed,
            temperature=temperature,
            max_length=self._search.max_length,
            constraints=self._search.constraints,
            return_alignments=self.unknown_words is not None,
        )
        return _format_single_hypothesis(found)

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

    def _compute_score(self, text, target):
        longest = self.pipeline.max_length
        ids = self.pipeline.encode_target(target, text, longest)[:, :longest]
        return self._score_ids(*self.pipeline.encode_source(text), ids)

    def _compute_beam_tree(self, text):
        found = self._search_tree(*self.pipeline.encode_source(text))
        longest = max_or_zero(found["length"])
        found |= {name: found[name][:, :longest] for name in ("ids", "parent", "log_prob", "state")}
        return {"tokens": self.pipeline.get_target_tokens(found.pop("ids"), text), **found}

    def _score_sequences(self, ids, length, target_ids):
        state, memory = self.pipeline.encode(ids, length)
        found = score_sequences(
            self.pipeline.step,
            state,
            memory,
            target_ids,
            return_alignments=False,
            special_ids=self._search.constraints.special_ids,
        )
        return {
            "log_prob": tf.cast(found["log_probs"], tf.float32),
            "token_log_prob": tf.cast(found["token_log_probs"], tf.float32),
            "length": tf.cast(found["lengths"], tf.int32),
        }

    def _search_as_requested(self, text, length_penalty, max_length):
        source = self.pipeline.encode_source(text)
        found = self._search_per_example(*source, length_penalty, max_length)
        return self._format_n_best(found, text)

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
            constraints=dataclasses.replace(self._search.constraints, max_lengths=max_length),
            return_alignments=self.unknown_words is not None,
        )
        return _format_hypotheses(found)

    def _beam_search_with_phrases(self, ids, length, phrases, return_alignments=None):
        """Searches for hypotheses that contain `phrases (B, P, L)`.

        Without `return_alignments` it returns alignments if `decode` needs them.
        """
        if return_alignments is None:
            return_alignments = self.unknown_words is not None
        found = self._run_beam_search(
            ids,
            length,
            constraints=dataclasses.replace(self._search.constraints, phrases=phrases),
            return_alignments=return_alignments,
        )
        return _format_hypotheses(found)

    def _beam_search(self, ids, length):
        """Searches for sources that end with EOS; skips the alignments, to save time."""
        return _format_hypotheses(self._run_beam_search(ids, length))

    def _beam_search_with_alignment(self, ids, length):
        """Searches for sources that end with EOS, with alignments."""
        return _format_hypotheses(self._run_beam_search(ids, length, return_alignments=True))

    def _beam_search_with_tree(self, ids, length):
        """Searches for sources that end with EOS; returns the tree instead of the n-best."""
        mask = make_source_mask(ids, length)
        options = dataclasses.replace(self._search.options, memory_mask=mask, return_tree=True)
        found = self._run_beam_search(ids, length, options=options)
        log_prob = tf.cast(found["tree_log_probs"], tf.float32)
        is_padding = log_prob <= PADDING_SCORE
        place = tf.range(2 * self._search.beam_width)
        state = tf.where(place < self._search.beam_width, ALIVE, ENDED)
        is_step = tf.logical_not(tf.reduce_all(is_padding, axis=2))
        return {
            "ids": tf.cast(found["tree_ids"], tf.int32),
            "parent": tf.cast(found["tree_parents"], tf.int32),
            "log_prob": log_prob,
            "state": tf.where(is_padding, PADDING, state),
            "length": tf.reduce_sum(tf.cast(is_step, tf.int32), axis=1),
        }

    def _greedy_search(self, ids, length):
        state, memory = self.pipeline.encode(ids, length)
        search, arguments = self.get_search("greedy", None)
        found = search(self.pipeline.step, state, memory, **arguments)
        return _format_single_hypothesis(found)

    def _run_beam_search(self, ids, length, **changes):
        """Returns the results of `beam_search`; `changes` are arguments to use instead."""
        state, memory = self.pipeline.encode(ids, length)
        mask = make_source_mask(ids, length)
        search, arguments = self.get_search("serving_default", mask)
        arguments |= {"return_alignments": False} | changes
        return search(self.pipeline.step, state, memory, **arguments)


def _format_hypotheses(found):
    """Returns the results of a search with the names and dtypes of a signature."""
    return {
        "ids": tf.cast(found["ids"], tf.int32),
        "length": tf.cast(found["lengths"], tf.int32),
        "score": tf.cast(found["scores"], tf.float32),
        **_format_alignments(found),
    }


def _format_single_hypothesis(found):
    """Returns the results of a search with one hypothesis for each example, likewise."""
    return {
        "ids": tf.cast(found["ids"], tf.int32),
        "length": tf.cast(found["lengths"], tf.int32),
        "log_prob": tf.cast(found["log_probs"], tf.float32),
        **_format_alignments(found),
    }


def _format_alignments(found):
    """Returns the alignments under their name, where the search returned them."""
    if "alignments" not in found:
        return {}
    return {"alignment": tf.cast(found["alignments"], tf.float32)}


def _trim_columns(found):
    """Returns `found` without the columns that are padding in every hypothesis."""
    longest = max_or_zero(tf.reshape(found["length"], [-1]))
    wide = {name: found[name][:, :, :longest] for name in ("ids", "alignment") if name in found}
    return found | wide
