"""Translates texts with a trained model, by the very functions that are exported."""

import argparse
import dataclasses
import pathlib
import typing

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import FlagGroup
from examples.recipes.learned_positions import check_pairs, find_source_limit
from keras_attention.export import (
    SearchOptions,
    Translation,
    Translator,
    XLABuckets,
    export_translator,
)
from keras_attention.export.export_flags import add_xla_flags, make_xla_buckets
from keras_attention.export.tokenizers import Tokenizer


def _make_compilation(arguments, run):
    try:
        return make_xla_buckets(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None


Compilation = typing.Annotated[XLABuckets, FlagGroup(add_xla_flags, _make_compilation)]


@dataclasses.dataclass(frozen=True)
class ServedTranslator:
    """What `export` writes: a translator with its search."""

    model: keras.Model
    tokenizers: dict[str, Tokenizer]
    search: SearchOptions
    xla: XLABuckets | None = None

    def write(
        self, base: str, version: int | None, name: str | None, settings: dict
    ) -> pathlib.Path:
        """Writes a version below `base`, the next one if None; returns its folder."""
        return export_translator(
            self.model,
            base,
            **self.tokenizers,
            version=version,
            name=name,
            search=self.search,
            xla=self.xla,
            run=settings,
        )


class TextTranslator:
    """Searches for the translations of texts, and scores given ones.

    Of a source that is longer than what the encoder has learned positions for, it reads as many
    tokens as there are positions; `learned_positions.report_cut_sources` says which these are.

    Args:
        model: A translator.
        source, target: Its tokenizers.
        search: The `SearchOptions`; `max_source_length` is ignored.
    """

    def __init__(self, model: keras.Model, source, target, search=SearchOptions()):
        search = dataclasses.replace(search, max_source_length=find_source_limit(model))
        self._model, self._sides = model, (source, target)
        self._translator = Translator.from_model(model, source=source, target=target, search=search)

    def translate(self, texts: list[str]) -> list[Translation]:
        """Returns outputs and scores of each text."""
        return self._translator.beam(texts, batch_size=64)

    def align(self, texts: list[str]) -> list[Translation]:
        """Returns outputs, scores and alignments of each text."""
        return self._translator.beam(texts, return_alignments=True)

    def translate_greedily(self, texts: list[str]) -> list[str]:
        """Returns for each text the output of the most probable tokens, without a search."""
        return self._translator.greedy(texts)

    def score(self, pairs) -> list[list[float]]:
        """Returns for each pair of texts the log-probability of each token and of the EOS token.

        Args:
            pairs: A `Corpus`, or a list of `(source, target)` texts.

        Raises:
            DataError: If a side of a pair is longer than what the model has learned positions
                for.
        """
        check_pairs(self._model, *self._sides, pairs)
        return self._translator.score(*zip(*pairs, strict=True))
