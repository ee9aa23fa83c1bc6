"""`python -m examples list`: the models there are."""

import itertools

from examples.registry import MODELS

SUMMARY = "list the models"
EPILOG = """\
Train one with `python -m examples train MODEL --run DIR`, those marked [--paper] with that option
in the sizes of their papers.
"""


def add_arguments(parser) -> None:
    """`list` has no options."""


def run(arguments) -> None:
    """Prints the models of each recipe, a line each: its name, what it is, the paper."""
    width = max(map(len, MODELS))
    title_width = max(len(model.module.TITLE) for model in MODELS.values())
    for recipe, members in itertools.groupby(MODELS.values(), key=lambda model: model.recipe):
        print(recipe.__doc__.splitlines()[0])
        for model in members:
            title, paper = model.module.TITLE, model.module.REFERENCE
            mark = " [--paper]" if hasattr(model.module, "PAPER") else ""
            print(f"  {model.name:<{width}}  {title:<{title_width}}  {paper}{mark}")
