"""`python -m examples plot`: what it can do depends on the run."""

import pathlib
import sys
import warnings

from examples.commands import by_run

SUMMARY = "draw what a run attends to"
NOTE = "What is drawn depends on the run: `python -m examples plot RUN --help`."


def for_arguments(text_arguments):
    """Returns the command as the recipe of the run has it."""
    return by_run.part(sys.modules[__name__], text_arguments)


def add_arguments(parser) -> None:
    """Adds the options of every run."""
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder of the figures")


def finish(recipe, options, arguments) -> None:
    """Writes the figures and says where; a warning is noted once."""
    directory = pathlib.Path(arguments.output_dir)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for name, figure, *described in recipe.plot(**options):
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / name
            if isinstance(figure, str):
                path.write_text(figure, encoding="utf-8")
            else:
                figure.savefig(path, dpi=150)
            print(path, *described, sep="  ")
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"note: {message}", file=sys.stderr)
