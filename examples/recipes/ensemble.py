"""Several runs of translators as one: the flag `--ensemble` and the model that it asks for."""

import argparse
import pathlib
import typing

import keras

from examples.commands.options import FlagGroup
from examples.models.assembly import translator
from examples.recipes.same_tokens import check_same_tokens
from keras_attention import EnsembleDecoder, EnsembleEncoder
from keras_attention.export.runs import SIDES, Run, read_run


def add_ensemble_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag of the other runs."""
    parser.add_argument(
        "--ensemble",
        metavar="RUN",
        nargs="+",
        type=pathlib.Path,
        help="average the predictions with those of these runs, on the same tokens, in every "
        "search (default: none)",
    )


def load_ensemble(arguments: argparse.Namespace, run: Run) -> keras.Model | None:
    """Returns the model of a run and those that `--ensemble` names; None if it names none.

    Args:
        arguments: What a parser with the flag has parsed.
        run: The run of a translator.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If the tokens of two runs are not the same, or a decoder copies words.
    """
    if arguments.ensemble is None:
        return None
    runs = [run, *map(read_run, arguments.ensemble)]
    for other in runs[1:]:
        if other.source_tokenizer is None:
            raise ValueError(
                f"--ensemble expects runs of translators. Received: {other.directory}, a run of "
                f"{other.settings['model']}"
            )
        for side in SIDES:
            check_same_tokens(
                *(one.directory / f"{side}.tokenizer" for one in (run, other)),
                "an ensemble averages predictions of the same tokens. Train its runs on the same "
                "data with the same options of the tokenizers",
            )
    encoders, decoders = (
        [one.model.get_layer(part) for one in runs] for part in ("encoder", "decoder")
    )
    return translator(
        EnsembleEncoder(encoders, name="encoder"),
        EnsembleDecoder(decoders, name="decoder"),
        name="ensemble",
    )


#: The annotation of a parameter that is the model of `--ensemble`, or None.
Ensemble = typing.Annotated[keras.Model, FlagGroup(add_ensemble_flag, load_ensemble)]
