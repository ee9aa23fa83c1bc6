"""The search of a translator with a language model: its flags and its `SearchOptions`."""

import argparse
import dataclasses
import pathlib

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.recipes.same_tokens import check_same_tokens
from keras_attention.export import SearchOptions
from keras_attention.export.runs import Run, read_run
from keras_attention.export.search_flags import add_search_flags, make_search_options
from keras_attention.search import RecurrentLanguageModel, ShallowFusion

DEFAULT_WEIGHT = 0.2


def add_fused_search_flags(parser: argparse.ArgumentParser, *, for_export: bool = True) -> None:
    """Adds the flags of the search options, and those of a language model."""
    add_search_flags(parser, for_export=for_export)
    group = parser.add_argument_group("language model")
    group.add_argument(
        "--language-model",
        metavar="RUN",
        type=pathlib.Path,
        help="rank outputs by log p + weight * log p of this run too, a recurrent language model "
        "trained with --tokenizer-of the translator (default: none)",
    )
    text = f"its weight; choose it on validation data (default: {DEFAULT_WEIGHT})"
    shared.number(group, "--language-model-weight", None, text, shared.not_negative)


def make_fused_search_options(arguments: argparse.Namespace, run: Run) -> SearchOptions:
    """Returns the search options that the flags ask for.

    Args:
        arguments: What a parser with the flags of `add_fused_search_flags` has parsed.
        run: The run of the translator.

    Raises:
        UsageError: If there is a weight without a language model.
        ValueError: If an option or the language model does not fit the translator.
    """
    search = make_search_options(arguments, run)
    directory, weight = arguments.language_model, arguments.language_model_weight
    if directory is None:
        if weight is not None:
            raise UsageError("--language-model-weight is for --language-model. Name its run.")
        return search
    fusion = ShallowFusion(
        load_language_model(run, directory, search.max_length),
        DEFAULT_WEIGHT if weight is None else weight,
    )
    return dataclasses.replace(search, fusion=fusion)


def load_language_model(
    run: Run, directory: pathlib.Path, max_length: int
) -> RecurrentLanguageModel:
    """Returns the language model of a run, for a search of a translator.

    Args:
        run: The run of the translator.
        directory: The run of the language model.
        max_length: The maximum length of the search.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If it is no recurrent language model, or its tokens are not those of the
            translator's target.
    """
    other = read_run(directory)
    tokenizer = directory / "text.tokenizer"
    if not tokenizer.is_dir():
        raise ValueError(
            f"--language-model expects the run of a language model, such as lstm-language-model. "
            f"Received: {directory}, a run of {other.settings['model']}"
        )
    check_same_tokens(
        run.directory / "target.tokenizer",
        tokenizer,
        "a language model ranks outputs of the same tokens alone. Train it with --tokenizer-of "
        f"{run.directory}",
    )
    return RecurrentLanguageModel(other.model, max_length=max_length)
