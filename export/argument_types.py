"""Numbers of the command lines, as types of argparse."""

import argparse
import math

LONGEST_SECONDS = 3600.0
MOST_MIB = 1024.0


def positive_int(text: str) -> int:
    """Returns a positive int; argparse tells what is none."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return number


def seconds(text: str) -> float:
    """Returns a time above 0, of an hour at most."""
    return _positive(text, LONGEST_SECONDS)


def mebibytes(text: str) -> float:
    """Returns a size above 0, of 1,024 MiB at most."""
    return _positive(text, MOST_MIB)


def _positive(text, most):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0, {most:g} at most, got {text!r}"
        )
    return number
