"""Arguments that several subcommands share, their types, and how their help looks."""

import argparse
import math
import pathlib
from collections.abc import Callable


class UsageError(ValueError):
    """Options that do not go together."""

    status = 2


def formatter(prog: str) -> argparse.HelpFormatter:
    """Returns a formatter that keeps the lines of the examples at the end."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


def add_run(parser) -> None:
    """Adds the run directory."""
    parser.add_argument("run", metavar="RUN", help="directory that `train --run` wrote")


def check_writable(path: str | None) -> pathlib.Path | None:
    """Returns the path of a file to be written, its folder made, before the long work.

    Raises:
        UsageError: If it is a folder.
        OSError: If it cannot be written.
    """
    if path is None:
        return None
    file = pathlib.Path(path)
    if file.is_dir():
        raise UsageError(f"{path} is a folder. Name a file to write.")
    file.parent.mkdir(parents=True, exist_ok=True)
    was_there = file.exists() or file.is_symlink()
    with open(file, "a", encoding="utf-8"):
        pass
    if not was_there:
        file.unlink()  # nothing empty stays if the work fails
    return file


def number(group, flag: str, default, text: str, kind: Callable | None = None) -> None:
    """Adds an option that takes a number.

    Args:
        group: Parser, or group of one.
        flag: The option, such as `"--epochs"`.
        default: Its default, which is told after `text`; None if `text` says what stands
            instead of a number.
        text: Str, the help.
        kind: One of the types below, `positive_int` if None.

    Example:

    >>> parser = argparse.ArgumentParser()
    >>> number(parser, "--epochs", 10, "epochs at most")
    >>> number(parser, "--rate", None, "the first one (default: the paper's)", positive_number)
    >>> parser.parse_args(["--rate", "0.5"])
    Namespace(epochs=10, rate=0.5)
    """
    kind = kind or positive_int
    told = text if default is None else f"{text} (default: %(default)s)"
    group.add_argument(flag, type=kind, default=default, metavar=kind.metavar, help=told)


# Types for argparse: from the text on the command line to a value in its range.


def int_at_least(minimum: int, maximum: float = math.inf) -> Callable[[str], int]:
    """Returns a type for whole numbers in a range."""
    what = "a positive whole number" if minimum == 1 else f"a whole number of at least {minimum}"
    if maximum < math.inf:
        what += f" and at most {maximum}"
    return _make_converter(int, lambda value: minimum <= value <= maximum, what)


def _make_converter(convert, inside, what):
    def convert_checked(text):
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not inside(value):
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
        return value

    convert_checked.metavar = "N" if convert is int else "X"
    return convert_checked


positive_int = int_at_least(1)
not_negative = _make_converter(float, lambda value: 0 <= value < math.inf, "a number of at least 0")
positive_number = _make_converter(float, lambda value: 0 < value < math.inf, "a positive number")
finite = _make_converter(float, math.isfinite, "a finite number")
share = _make_converter(float, lambda value: 0 < value < 1, "a number between 0 and 1")
fraction = _make_converter(float, lambda value: 0 <= value < 1, "a number from 0 to below 1")
seed = int_at_least(0, 2**32 - 1)
