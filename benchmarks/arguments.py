"""The flags all suites share, and the types of their values."""

import argparse
import math
from pathlib import Path

from benchmarks.harness import available_cores


def add_shared(parser, repeats: int) -> None:
    """Adds the flags every suite has; `repeats` is the suite's default number of rounds."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers to FILE")
    for flag, default, text in (
        ("--repeats", repeats, "rounds; each calls every side once"),
        ("--warmup", 3, "calls of a side before the first round, the compiling one included"),
        ("--threads", available_cores(), "threads every side may use, by default all cores"),
    ):
        add_number(parser, flag, default, text)


def add_number(parser, flag: str, default: int, text: str) -> None:
    """Adds a flag that takes a positive int and shows its default in the help."""
    parser.add_argument(
        flag, type=positive, default=default, metavar="N", help=f"{text} (default: {default})"
    )


def positive(text: str) -> int:
    """Returns the positive int `text` stands for, as an argparse type."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def number_between(text: str, below: float) -> float:
    """Returns the number above 0 and less than `below` that `text` stands for."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise argparse.ArgumentTypeError(f"expected a number above 0{limit}, got {text!r}")
    return number
