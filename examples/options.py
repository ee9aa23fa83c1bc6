"""Options of a model, as its module declares them and the command line offers them."""

import argparse
import dataclasses
from collections.abc import Callable

from examples.commands.arguments import positive_int


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: `--units 512` sets the argument `units` of the model's `build`.

    Attributes:
        default: The value if nothing is said. Where it is True or False, the command line offers
            `--name` and `--no-name`.
        help: What it does, for `--help`.
        type: Function from the text on the command line to the value; those of
            `examples.commands.arguments` check its range.
        choices: The values allowed, or None for any of the type.
    """

    default: object
    help: str
    type: Callable = positive_int
    choices: tuple | None = None

    def add_to(self, group, name: str) -> None:
        """Adds the option to a group of an argument parser."""
        flag = f"--{name.replace('_', '-')}"
        if isinstance(self.default, bool):
            said = "on" if self.default else "off"
            group.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=self.default,
                help=f"{self.help} (default: {said})",
            )
            return
        default = "" if self.default is None else " (default: %(default)s)"
        group.add_argument(
            flag,
            type=self.type,
            default=self.default,
            choices=self.choices,
            metavar=None if self.choices else "N" if self.type is positive_int else "X",
            help=self.help + default,
        )
