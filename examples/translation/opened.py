"""A run, opened for a command."""

from examples.translation.translating import TextTranslator
from keras_attention import ConvDecoder
from keras_attention.export.runs import Run, read_run

OUTPUT_LIMIT = 128  # for a run that does not say how long its training targets were


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
        beam_width=arguments.beam,
        max_length=output_limit(run, arguments),
        length_penalty=arguments.length_penalty,
    )


def output_limit(run: Run, arguments) -> int:
    """The longest output: what was asked for, or what fits the targets of training."""
    trained = (run.settings.get("lengths") or {}).get("target")
    return arguments.max_length or default_limit(run.model, trained)


def default_limit(model, trained: int | None) -> int:
    """Twice the longest target of training, if the decoder has learned that many positions."""
    limit = 2 * trained if trained else OUTPUT_LIMIT
    decoder = model.get_layer("decoder")
    decoder = getattr(decoder, "decoder", decoder)  # scheduled sampling wraps one
    learned = isinstance(decoder, ConvDecoder) or getattr(decoder, "positions", None) == "learned"
    return min(limit, decoder.max_length) if learned else limit


def trained_format(run: Run) -> str:
    """Returns the form of the pairs that the run was trained on."""
    return (run.settings.get("training") or {}).get("format") or "tsv"


def learned_from_files(run: Run) -> bool:
    """Returns whether the run was trained on the user's files, and not on the dates."""
    told = run.settings.get("training") or {}
    return bool(told.get("source") or told.get("pairs"))
