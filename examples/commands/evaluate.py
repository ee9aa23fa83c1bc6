"""`python -m examples evaluate`: what it can do depends on the run."""

import json
import sys
import time

from examples.commands import arguments as shared
from examples.commands import by_run

SUMMARY = "measure a run on data it has not seen"
NOTE = "What is measured depends on the run: `python -m examples evaluate RUN --help`."


def for_arguments(text_arguments):
    """Returns the command as the recipe of the run has it."""
    return by_run.part(sys.modules[__name__], text_arguments)


def add_arguments(parser) -> None:
    """Adds the options of every run."""
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def finish(recipe, options, arguments) -> None:
    """Prints the numbers, and writes them if asked to."""
    path = shared.check_writable(arguments.json)
    began = time.monotonic()
    numbers = {**recipe.evaluate(**options), "seconds": time.monotonic() - began}
    for name, value in _flatten(numbers):
        shown = f"{value:{recipe.float_format}}" if isinstance(value, float) else value
        shown = f"{value:,}" if isinstance(value, int) else shown
        print(f"{name.replace('_', ' '):<20} {shown}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def _flatten(numbers):
    """Yields names and numbers; those in a dict have its name too, and those in a list none."""
    for name, value in numbers.items():
        if isinstance(value, dict):
            yield from ((f"{name} {key}", number) for key, number in value.items())
        elif not isinstance(value, list):
            yield name, value
