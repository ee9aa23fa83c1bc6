"""`python -m examples export`: what it can do depends on the run."""

from examples.commands import by_run

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/dates served          writes served/1, then served/2, ...

The options depend on the run: `python -m examples export RUN --help`.
"""


def for_arguments(text_arguments):
    """Returns the module that knows the run: the export command of its family."""
    return by_run.part("export", text_arguments)
