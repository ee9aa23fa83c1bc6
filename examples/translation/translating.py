"""Translates texts with a trained run, by the very functions that are exported."""

import dataclasses

import keras

from examples.translation.lengths import check_pairs, source_limit
from keras_attention.export import SearchOptions, Translation, Translator


class TextTranslator:
    """Beam search from text to text.

    Of a source that is longer than what the encoder has learned positions for, it reads as many
    tokens as there are positions; `lengths.tell_cut_sources` says which these are.

    Args:
        model: A translator.
        source, target: Its tokenizers.
        search: The `SearchOptions`; `max_source_length` is ignored.
    """

    def __init__(self, model: keras.Model, source, target, search=SearchOptions()):
        search = dataclasses.replace(search, max_source_length=source_limit(model))
        self._translator = Translator.from_model(model, source=source, target=target, search=search)

    def best(self, texts: list[str]) -> list[str]:
        """Returns the best output of each text."""
        return ["".join(found.texts[:1]) for found in self._translator.beam(texts, batch_size=64)]

    def greedy(self, texts: list[str]) -> list[str]:
        """Returns for each text the output of the likeliest tokens, without a search."""
        return self._translator.greedy(texts)

    def translate(self, texts: list[str]) -> list[Translation]:
        """Returns outputs, scores and alignments of each text."""
        return self._translator.beam(texts, return_alignments=True)


class PairScorer:
    """The log-probabilities of given targets, by the function that is exported.

    Args:
        model: A translator.
        source, target: Its tokenizers.
    """

    def __init__(self, model: keras.Model, source, target):
        self._model, self._source, self._target = model, source, target
        search = SearchOptions(max_source_length=source_limit(model))
        self._translator = Translator.from_model(model, source=source, target=target, search=search)

    def log_probs(self, pairs) -> list[list[float]]:
        """Returns for each pair of texts the log-probability of each token and of the end.

        Args:
            pairs: A `Corpus`, or a list of `(source, target)` texts.

        Raises:
            DataError: If a side of a pair is longer than what the model has learned positions
                for.
        """
        check_pairs(self._model, self._source, self._target, pairs)
        return self._translator.score(*zip(*pairs, strict=True))
