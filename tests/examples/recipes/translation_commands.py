"""The commands on runs of translators, called in this process."""

import argparse
import importlib

import numpy as np

from examples.commands.by_run import RunCommand
from examples.commands.train import make_recipe
from examples.commands.train_options import parse
from examples.recipes.translation import Translation
from keras_attention.export import Translation as TranslatedText


class Echo:
    """Stands in for a translator: the output is the text, every token attends to one."""

    def translate(self, texts):
        return [
            TranslatedText([text], [0.0], [*text], [*text], np.eye(len(text))) for text in texts
        ]

    align = translate


def call(name, *options):
    """Calls a command on the run of a translator."""
    command = RunCommand(importlib.import_module(f"examples.commands.{name}"), Translation)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args([str(option) for option in options]))


def read_options(line="", model="rnnsearch"):
    """Returns the recipe of a model with the options of a line."""
    return make_recipe(model, parse(model, ["--run", "x", *line.split()]))
