"""Types of argparse for the numbers of command lines: ints, seconds and MiB."""

import argparse
import functools
import math
from collections.abc import Callable

MAX_SECONDS = 3600.0
MAX_MIB = 1024.0
MAX_INT = 2**63 - 1  # the largest int64, which versions and TensorFlow's numbers are
MAX_QUOTED_CHARACTERS = 40


def quote(text: str) -> str:
    """Returns an argument for an error message, its beginning if it is long."""
    is_long = len(text) > MAX_QUOTED_CHARACTERS
    return repr(text[:MAX_QUOTED_CHARACTERS]) + ("..." if is_long else "")


def parse_int(text: str, most: int = MAX_INT) -> int | None:
    """Returns an int from 0 to `most` that decimal digits spell, None for anything else."""
    if not text.isdecimal() or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def non_negative_int(text: str) -> int:
    """Returns the 64-bit int from 0 that `text` spells; argparse reports anything else."""
    number = parse_int(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"expected 0 or a positive integer, got {quote(text)}")
    return number


def positive_int(text: str) -> int:
    """Returns the positive 64-bit int that `text` spells; argparse reports anything else."""
    return _positive_int(text, MAX_INT)


def positive_int_up_to(most: int) -> Callable[[str], int]:
    """Returns the argparse type of positive ints of at most `most`."""
    return functools.partial(_positive_int, most=most)


def _positive_int(text, most):
    if parse_int(text, most):
        return parse_int(text, most)
    limit = f" of at most {most}" if text.isdecimal() and text.strip("0") else ""
    raise argparse.ArgumentTypeError(f"expected a positive integer{limit}, got {quote(text)}")


def seconds(text: str) -> float:
    """Returns seconds above 0, at most an hour."""
    return _positive(text, MAX_SECONDS)


def mebibytes(text: str) -> float:
    """Returns MiB above 0, at most 1,024."""
    return _positive(text, MAX_MIB)


def _positive(text, most):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and at most {most:g}, got {quote(text)}"
        )
    return number
