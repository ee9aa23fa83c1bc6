"""Writes the embedded data as files: `python -m examples.data dates --output-dir DIR`."""

import argparse
import sys

from examples.data.dates import DEFAULT_SIZES, write_dates
from examples.data.report import DataError


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.data", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    dates = commands.add_parser("dates", help="dates in many locales, to ISO 8601")
    dates.add_argument(
        "--output-dir", required=True, metavar="DIR", help="folder for the TSV files"
    )
    dates.add_argument("--seed", type=int, default=0, help="seed of the draws (default 0)")
    for split, size in DEFAULT_SIZES.items():
        text = f"texts in {split}.tsv (default {size})"
        dates.add_argument(f"--{split}", type=_count, default=size, metavar="N", help=text)
    options = parser.parse_args(arguments)
    try:
        sizes = {split: getattr(options, split) for split in DEFAULT_SIZES}
        for path in write_dates(options.output_dir, sizes, options.seed):
            print(path)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a positive number is expected, not {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
