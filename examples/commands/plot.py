"""`python -m examples plot`: what it can do depends on the run."""

from examples.commands import by_run

SUMMARY = "draw what a run looks at"
NOTE = "What is drawn depends on the run: `python -m examples plot RUN --help`."


def for_arguments(text_arguments):
    """Returns the module that knows the run: the plot command of its family."""
    return by_run.part("plot", text_arguments)
