"""Options of a model, as its module declares them and the command line offers them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: `--units 512` sets the argument `units` of the model's `build`.

    Attributes:
        default: The value if nothing is said.
        help: What it does, for `--help`.
        type: Function from the text on the command line to the value.
        choices: The values allowed, or None for any of the type.
    """

    default: object
    help: str
    type: type = int
    choices: tuple | None = None

    def add_to(self, group, name: str) -> None:
        """Adds the option to a group of an argument parser."""
        default = "" if self.default is None else " (default: %(default)s)"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=self.type,
            default=self.default,
            choices=self.choices,
            help=self.help + default,
        )
