"""Several runs of translators as one: what `--ensemble` asks for."""

import argparse
import pathlib
from collections.abc import Sequence

import keras

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
        help="average the predictions with those of these runs, which have the same tokens; write "
        "it after all other words (default: none)",
    )


class EnsembleRun(Run):
    """A run whose model is the ensemble of its own and of those of other runs.

    Args:
        run: The run of a translator, whose tokenizers and settings it has.
        directories: The directories of the others.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If the tokens of two runs are not the same, or their decoders do not fit.
    """

    def __init__(self, run: Run, directories: Sequence[pathlib.Path]):
        others = [_read_other(run, directory) for directory in directories]
        settings = {**run.settings, "ensemble": [dict(other.settings) for other in others]}
        super().__init__(run.directory, settings, run.source_tokenizer, run.target_tokenizer)
        encoders, decoders = (
            [one.model.get_layer(part) for one in (run, *others)] for part in ("encoder", "decoder")
        )
        encoder = EnsembleEncoder(encoders, name="encoder")
        decoder = EnsembleDecoder(decoders, name="decoder")
        self._ensemble = translator(encoder, decoder, name="ensemble")

    @property
    def model(self) -> keras.Model:
        """The model of all runs together."""
        return self._ensemble


def _read_other(run, directory):
    """Returns the run in a directory, after checking that its tokens are those of `run`."""
    if not directory.is_dir():
        raise FileNotFoundError(
            f"There is no run directory {directory}. --ensemble takes all words up to the next "
            "flag: write it after the run and the texts or folders of the command."
        )
    other = read_run(directory)
    if other.source_tokenizer is None:
        raise ValueError(
            f"--ensemble expects runs of translators. Received: {directory}, a run of "
            f"{other.settings['model']}"
        )
    for side in SIDES:
        check_same_tokens(
            *(one.directory / f"{side}.tokenizer" for one in (run, other)),
            "an ensemble averages predictions of the same tokens. Train its runs on the same data "
            "with the same options of the tokenizers",
        )
    return other
