"""A run, opened for a command."""

import keras

from examples.translation.translating import TextTranslator
from keras_attention import ChoDecoder, Seq2SeqDecoder
from keras_attention.export.runs import Run, read_run
from keras_attention.export.search_arguments import make_search_options


def open_run(directory: str) -> Run:
    """Returns the run in `directory`, its model loaded.

    Raises:
        ValueError: If it is not a run of a translator.
    """
    run = read_run(directory)
    if run.source_tokenizer is None:
        raise ValueError(
            f"The run in {directory} is one of {run.settings['system']}, which does not translate. "
            "Name the run of a translator."
        )
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return run


def translator(run: Run, arguments) -> TextTranslator:
    """Returns the run's translator with the search that the arguments ask for."""
    return TextTranslator(
        run.model,
        run.source_tokenizer,
        run.target_tokenizer,
        make_search_options(arguments, run),
    )


def has_attention(model: keras.Model) -> bool:
    """Returns whether the decoder of a translator attends to the source."""
    decoder = model.get_layer("decoder")
    decoder = getattr(decoder, "decoder", decoder)  # scheduled sampling has one within
    return not isinstance(decoder, (ChoDecoder, Seq2SeqDecoder))


def trained_format(run: Run) -> str:
    """Returns the form of the pairs that the run was trained on."""
    return (run.settings.get("training") or {}).get("format") or "tsv"


def learned_from_files(run: Run) -> bool:
    """Returns whether the run was trained on the user's files, and not on the dates."""
    told = run.settings.get("training") or {}
    return any(told.get(name) for name in ("source", "pairs", "shards"))
