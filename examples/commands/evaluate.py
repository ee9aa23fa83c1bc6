"""`python -m examples evaluate`: what it can do depends on the run."""

from examples.commands import by_run

SUMMARY = "measure a run on data it has not seen"
NOTE = "What is measured depends on the run: `python -m examples evaluate RUN --help`."


def for_arguments(text_arguments):
    """Returns the module that knows the run: the evaluate command of its family."""
    return by_run.part("evaluate", text_arguments)
