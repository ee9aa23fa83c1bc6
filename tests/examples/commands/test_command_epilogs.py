"""Every command that a `--help` shows is one that the command line takes; none is run."""

import argparse
import importlib
import re
import shlex

import pytest

from examples import registry
from examples.commands import by_run, train_options
from examples.commands.options import describe
from examples.commands.train import make_recipe

COMMANDS = ("evaluate", "plot", "export", "score", "translate")


def commands(epilog):
    """Returns the words of the commands in a text, without what is said of them behind."""
    joined = re.sub(r"\\\n *", "", epilog)
    found = re.findall(r"^ *python -m examples (\S.*)", joined, re.MULTILINE)
    # A remark stands behind two spaces, a file that is read behind <.
    return [shlex.split(re.split("  | <", line)[0]) for line in found]


def run_command(name, command):
    """Returns a command on a run of a model."""
    recipe = registry.find(name).recipe
    return by_run.RunCommand(importlib.import_module(f"examples.commands.{command}"), recipe)


def list_shown_commands(name, command):
    """Returns the commands in the help of a model's command, none if it has no such command."""
    recipe = registry.find(name).recipe
    if command == "train":
        return commands(describe(recipe)[1].format(name))
    return commands(run_command(name, command).EPILOG) if hasattr(recipe, command) else []


def parse(name, words):
    """Parses the words after `python -m examples`, of a command shown for a model."""
    command, *rest = words
    if command == "train":
        make_recipe(rest[0], train_options.parse(rest[0], rest[1:]))
        return
    parser = argparse.ArgumentParser(command)
    run_command(name, command).add_arguments(parser)
    arguments, texts = parser.parse_known_args(rest)  # texts may follow an option
    assert not texts or "texts" in arguments, texts
    assert not [text for text in texts if text.startswith("-")]


def test_commands_are_found_over_several_lines_and_without_remarks():
    text = "  python -m examples a runs \\\n      --b 'c d'\n  python -m examples e f    a remark\n"
    assert commands(text) == [["a", "runs", "--b", "c d"], ["e", "f"]]


@pytest.mark.parametrize("name", registry.MODELS)
def test_the_commands_that_help_shows_are_taken(name):
    assert list_shown_commands(name, "train") and list_shown_commands(name, "evaluate")
    for command in ("train", *COMMANDS):
        for words in list_shown_commands(name, command):
            parse(name, words)
