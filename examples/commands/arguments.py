"""Arguments that several subcommands share."""

import argparse

from examples.corpora import Files


def add_files(parser, part: str, prefix: str = "") -> None:
    """Adds `--source`, `--target` and `--pairs`, with a prefix such as `dev-`."""
    group = parser.add_argument_group(f"{part} data (plain or .gz)")
    flag = f"--{prefix}"
    group.add_argument(f"{flag}source", metavar="FILE", help="source side, one text a line")
    group.add_argument(f"{flag}target", metavar="FILE", help="target side, line by line")
    group.add_argument(f"{flag}pairs", metavar="FILE", help="source<TAB>target a line, instead")


def files_of(arguments: argparse.Namespace, prefix: str = "") -> Files:
    """Returns the files that `add_files` collected."""
    return Files(*(getattr(arguments, f"{prefix}{name}") for name in ("source", "target", "pairs")))


def add_run(parser) -> None:
    """Adds the run directory."""
    parser.add_argument("run", metavar="RUN", help="directory that `train --run` wrote")


def add_search(parser) -> None:
    """Adds the options of the search."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--beam", type=positive_int, default=4, help="hypotheses kept; 1 is greedy (default: 4)"
    )
    group.add_argument(
        "--length-penalty",
        type=float,
        metavar="ALPHA",
        help="GNMT length penalty; 0.6 favors longer outputs (default: none)",
    )
    group.add_argument(
        "--max-length",
        type=positive_int,
        help="longest output in tokens (default: twice the longest of training)",
    )


def positive_int(text: str) -> int:
    """A type for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return value


def share(text: str) -> float:
    """A type for argparse: a number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text!r}")
    return value
