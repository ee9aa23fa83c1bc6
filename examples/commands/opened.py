"""A run, opened for a command."""

from examples.translating import TextTranslator
from keras_attention.export.runs import Run, read_run


def open_run(directory: str) -> Run:
    """Returns the run in `directory`, its model loaded."""
    run = read_run(directory)
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
    """The longest output: what was asked for, or twice the longest of training."""
    return arguments.max_length or 2 * run.settings["lengths"]["target"]
