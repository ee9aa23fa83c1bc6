"""Arguments that several subcommands share, their types, and how their help looks."""

import argparse
import math
import pathlib
from collections.abc import Callable

from examples.corpora import Files


class UsageError(ValueError):
    """Options that do not go together."""

    status = 2


def formatter(prog: str) -> argparse.HelpFormatter:
    """Returns a formatter that keeps the lines of the examples at the end."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


def add_files(parser, part: str, prefix: str = "", hint: str = "") -> None:
    """Adds `--source`, `--target` and `--pairs`, with a prefix such as `dev-`."""
    group = parser.add_argument_group(f"{part} data, plain or .gz{hint}")
    flag = f"--{prefix}"
    group.add_argument(f"{flag}source", metavar="FILE", help="source side, one text a line")
    group.add_argument(f"{flag}target", metavar="FILE", help="target side, line by line")
    group.add_argument(f"{flag}pairs", metavar="FILE", help="source<TAB>target a line, instead")


def files_of(arguments: argparse.Namespace, part: str, prefix: str = "") -> Files:
    """Returns the files that `add_files` collected.

    Raises:
        UsageError: If they are neither two parallel files, nor one of pairs, nor none.
    """
    names = ("source", "target", "pairs")
    source, target, pairs = (getattr(arguments, f"{prefix}{name}") for name in names)
    flags = [f"--{prefix.replace('_', '-')}{name}" for name in names]
    if pairs and (source or target):
        raise UsageError(
            f"The {part} data is either two parallel files ({flags[0]}, {flags[1]}) or one of "
            f"pairs ({flags[2]}). Leave one of them out."
        )
    if bool(source) != bool(target):
        given, missing = flags[:2] if source else flags[1::-1]
        raise UsageError(
            f"{given} was given without {missing}. Name both files: line n of one is the "
            "translation of line n of the other."
        )
    return Files(source, target, pairs)


def add_run(parser) -> None:
    """Adds the run directory."""
    parser.add_argument("run", metavar="RUN", help="directory that `train --run` wrote")


def add_search(parser) -> None:
    """Adds the options of the search."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--beam",
        type=positive_int,
        default=4,
        metavar="N",
        help="hypotheses kept; 1 takes the likeliest token each time (default: %(default)s)",
    )
    group.add_argument(
        "--length-penalty",
        type=penalty,
        metavar="ALPHA",
        help="GNMT length penalty; 0.6 favors longer outputs (default: none)",
    )
    group.add_argument(
        "--max-length",
        type=positive_int,
        metavar="N",
        help="longest output in tokens (default: twice the longest of training)",
    )


def check_writable(path: str | None) -> pathlib.Path | None:
    """Returns the path of a file to be written, its folder made, before the long work.

    Raises:
        UsageError: If it is a folder.
        OSError: If it cannot be written.
    """
    if path is None:
        return None
    if pathlib.Path(path).is_dir():
        raise UsageError(f"{path} is a folder. Name a file to write.")
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8"):
        return pathlib.Path(path)


# Types for argparse: from the text on the command line to a value in its range.


def int_at_least(minimum: int, maximum: float = math.inf) -> Callable[[str], int]:
    """Returns a type for whole numbers in a range."""
    what = "a positive whole number" if minimum == 1 else f"a whole number of at least {minimum}"
    if maximum < math.inf:
        what += f" and at most {maximum}"
    return _checked(int, lambda value: minimum <= value <= maximum, what)


def _checked(convert, inside, what):
    def checked(text):
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not inside(value):
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
        return value

    return checked


positive_int = int_at_least(1)
positive_number = _checked(float, lambda value: 0 < value < math.inf, "a positive number")
share = _checked(float, lambda value: 0 < value < 1, "a number between 0 and 1")
fraction = _checked(float, lambda value: 0 <= value < 1, "a number from 0 to below 1")
penalty = _checked(float, lambda value: -10 <= value <= 10, "a number from -10 to 10")
seed = int_at_least(0, 2**32 - 1)
