"""The options of `python -m examples train`."""

import argparse

from examples import registry
from examples.commands import arguments as shared
from examples.commands.options import Option, describe, options_of
from examples.recipes.base import Recipe

INTERRUPTION = """
Ctrl-C ends a run; --resume goes on from its last backup.
"""
USAGE = "python -m examples train {} --run DIR [--resume] [options]"


def make_parser(name: str, add=argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Returns the parser of `train NAME`; `add` makes it, alone or among the subcommands."""
    model = registry.find(name)
    summary, epilog = describe(model.recipe)
    parser = add(
        prog=f"python -m examples train {name}",
        usage=USAGE.format(name),
        description=f"{model.module.TITLE} ({model.module.REFERENCE}).\n\n{summary}",
        epilog=epilog.format(name) + "\n" + INTERRUPTION,
        formatter_class=shared.formatter,
    )
    run = parser.add_argument_group("the run")
    run.add_argument("--run", required=True, metavar="DIR", help="directory of the run")
    run.add_argument(
        "--resume",
        action="store_true",
        help="go on from the backup in --run; options not given are as they were",
    )
    group = parser.add_argument_group("model")
    for option in model.options:
        option.add_to(group)
    if hasattr(model.module, "PAPER"):
        _add_paper(group, model.module.PAPER)
    for title, options in group_options(model.recipe).items():
        group = parser.add_argument_group(title)
        for option in options:
            option.add_to(group)
    return parser


def group_options(recipe: type[Recipe]) -> dict[str, list[Option]]:
    """Returns the options of a recipe by the heading that `--help` lists them under."""
    common = {option.name for option in options_of(Recipe)} - {"batch_size"}
    groups = {"data": [], "training": []}
    for option in options_of(recipe):
        is_training = option.name in common or option.name in recipe.training_fields
        groups["training" if is_training else "data"].append(option)
    return groups


def parse(name: str, words: list[str], began: dict | None = None) -> argparse.Namespace:
    """Returns the options of `train NAME`.

    Args:
        name: The model.
        words: The command line after it.
        began: What a run began with, which holds for all that the words leave open. Without it
            `--paper` says that for the sizes of the model.
    """
    parser = make_parser(name)
    arguments = parser.parse_args(words)
    if began is not None:
        open_ones = {name: began[name] for name in vars(arguments) if name in began}
    elif getattr(arguments, "paper", False):
        open_ones = registry.find(name).module.PAPER
    else:
        return arguments
    parser.set_defaults(**open_ones)
    return parser.parse_args(words)


def _add_paper(group, sizes):
    flags = {name.replace("_", "-"): value for name, value in sizes.items()}
    told = [flag if value is True else f"{flag} {value}" for flag, value in flags.items()]
    group.add_argument(
        "--paper",
        action="store_true",
        help=f"the paper's {', '.join(told)}, but for those given (default: sizes for a laptop)",
    )
