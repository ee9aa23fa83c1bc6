"""Every command that a `--help` shows is one that the command line takes; none is run."""

import argparse
import re
import shlex

import pytest

from examples import systems
from examples.commands import train_options

COMMANDS = ("evaluate", "plot", "export", "score", "translate")


def commands(epilog):
    """Returns the words of the commands in a text, without what is said of them behind."""
    joined = re.sub(r"\\\n *", "", epilog)
    found = re.findall(r"^ *python -m examples (\S.*)", joined, re.MULTILINE)
    # A remark stands behind two spaces, a file that is read behind <.
    return [shlex.split(re.split("  | <", line)[0]) for line in found]


def shown(name, command):
    """Returns the commands in the help of a system's command, none if it has no such command."""
    try:
        module = systems.find(name).part("options" if command == "train" else command)
    except ValueError:
        return []
    epilog = getattr(module, "EPILOGS", {}).get(name, module.EPILOG)
    return commands(epilog.format(name) if command == "train" else epilog)


def parse(name, words):
    """Parses the words after `python -m examples`, of a command shown for a system."""
    command, *rest = words
    if command == "train":
        arguments = train_options.parse(rest[0], rest[1:])
        systems.find(rest[0]).part("train").check(arguments)
        return
    parser = argparse.ArgumentParser(command)
    systems.find(name).part(command).add_arguments(parser)
    arguments, texts = parser.parse_known_args(rest)  # texts may follow an option
    assert not texts or "texts" in arguments, texts
    assert not [text for text in texts if text.startswith("-")]


def test_commands_are_found_over_several_lines_and_without_remarks():
    text = "  python -m examples a runs \\\n      --b 'c d'\n  python -m examples e f    a remark\n"
    assert commands(text) == [["a", "runs", "--b", "c d"], ["e", "f"]]


@pytest.mark.parametrize("name", systems.SYSTEMS)
def test_the_commands_that_help_shows_are_taken(name):
    assert shown(name, "train") and shown(name, "evaluate")
    for command in ("train", *COMMANDS):
        for words in shown(name, command):
            parse(name, words)
