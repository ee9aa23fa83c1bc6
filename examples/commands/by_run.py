"""Commands whose options depend on the run they are given."""

import argparse
import json
import pathlib
from collections.abc import Sequence

from examples import registry
from examples.commands import arguments as shared
from examples.commands.options import check_given, describe, options_of, take
from examples.recipes.base import Recipe
from examples.recipes.ensemble import EnsembleRun, add_ensemble_flag
from keras_attention.export.runs import read_run

#: What is asked where no run is named: its errors say what is missing.
DEFAULT = "rnnsearch"


class RunCommand:
    """A command on a run: a method of its recipe, whose arguments are the options.

    Args:
        command: The module of the command, with `add_arguments(parser)` and
            `finish(recipe, options, arguments)`.
        recipe: The class of the run's recipe.
    """

    def __init__(self, command, recipe: type[Recipe]) -> None:
        self._command = command
        self._has_ensembles = recipe.has_ensembles
        method = getattr(recipe, command.__name__.rpartition(".")[2])
        self._options = options_of(method)
        self.SUMMARY, self.EPILOG = describe(method)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the run, the options of the method and those of the command."""
        shared.add_run(parser)
        for option in self._options:
            option.add_to(parser)
        if self._has_ensembles:
            add_ensemble_flag(parser)
        self._command.add_arguments(parser)

    def check_run(self, arguments: argparse.Namespace) -> None:
        """Raises as `load_recipe` does if there is no such run, whose options are not known."""
        load_recipe(arguments.run)

    def run(self, arguments: argparse.Namespace) -> None:
        """Opens the run and calls the method."""
        check_given(self._options, arguments)
        recipe = load_recipe(arguments.run, getattr(arguments, "ensemble", None))
        self._command.finish(recipe, take(self._options, arguments, recipe.run), arguments)


def load_recipe(directory: str, ensemble: Sequence[pathlib.Path] | None = None) -> Recipe:
    """Returns the recipe of the run in a directory, with the options it was trained with.

    Args:
        directory: The directory.
        ensemble: The directories of other runs that answer together with it, or None.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or holds an option that its recipe cannot have.
    """
    run = read_run(directory)
    recipe = registry.find(run.settings["model"]).recipe
    return recipe.from_run(run if ensemble is None else EnsembleRun(run, ensemble))


def part(command, text_arguments: list[str]):
    """Returns the command as the run has it that the arguments name.

    Args:
        command: The module of the command.
        text_arguments: The command line, the name of the command first.

    Raises:
        ValueError: If there is none for such a run.
    """
    models = {text: name for text in text_arguments if (name := _find_model(text)) is not None}
    name = command.__name__.rpartition(".")[2]
    for text, model in models.items():  # one may be the value of an option
        recipe = registry.find(model).recipe
        if hasattr(recipe, name):
            found = RunCommand(command, recipe)
            if _find_run(found, text_arguments[1:]) == text:
                return found
    model = registry.find(next(iter(models.values()), DEFAULT))
    if not hasattr(model.recipe, name):
        raise ValueError(f"There is no `{name}` for a run of {model.name}.")
    return RunCommand(command, model.recipe)


class _Parser(argparse.ArgumentParser):
    """A parser that raises where others end the process."""

    def error(self, message):
        raise ValueError(message)


def _find_run(command, words):
    """The run that the words name if the command is the right one, None if they are no usage."""
    parser = _Parser(add_help=False)
    command.add_arguments(parser)
    try:
        arguments, rest = parser.parse_known_args(words)
    except ValueError:
        return None
    return None if any(text.startswith("-") for text in rest) else arguments.run


def _find_model(text):
    """The model of the run in a directory of that name, None if there is no such run."""
    path = pathlib.Path(text) / "run.json"
    try:
        settings = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None  # the command that opens the run says what is wrong
    name = settings.get("model") if isinstance(settings, dict) else None
    return name if name in registry.MODELS else None
