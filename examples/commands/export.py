"""`python -m examples export`: what it can do depends on the run."""

from examples.commands import by_run

SUMMARY = "write a SavedModel version that a model server loads"
NOTE = "What can be chosen depends on the run: `python -m examples export RUN --help`."


def for_arguments(text_arguments):
    """Returns the module that knows the run: the export command of its family."""
    return by_run.part("export", text_arguments)
