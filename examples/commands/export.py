"""`python -m examples export`: what it can do depends on the run."""

import sys

from examples.commands import by_run
from keras_attention.export import runs, versions
from keras_attention.export.export_flags import add_version_flags

SUMMARY = "write a SavedModel version that a model server loads"
NOTE = "What can be chosen depends on the run: `python -m examples export RUN --help`."


def for_arguments(text_arguments):
    """Returns the command as the recipe of the run has it."""
    return by_run.part(sys.modules[__name__], text_arguments)


def add_arguments(parser) -> None:
    """Adds the options of every run."""
    parser.add_argument(
        "base", metavar="BASE", help="base directory; the version is a folder in it"
    )
    add_version_flags(parser)


def finish(recipe, options, arguments) -> None:
    """Writes the version and says where."""
    if arguments.dtype == "float32":
        recipe.model = runs.convert_to_float32(recipe.model)
    if arguments.quantization is not None:
        runs.quantize_model(recipe.model, arguments.quantization)
    served = recipe.export(**options)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    print(served.write(arguments.base, arguments.version, arguments.name, recipe.run.settings))
