"""Writes files of data: `dates` the embedded dates, `join` several sources as one file.

python -m examples.data dates --output-dir DIR
python -m examples.data join train.de train.fr --output train.de-fr
"""

import argparse
import sys

from examples.data.dates import DEFAULT_SIZES, write_dates
from examples.data.report import DataError
from examples.data.sources import SEPARATOR, join_sources


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    dates = commands.add_parser("dates", help="dates in many locales, to ISO 8601")
    dates.add_argument(
        "--output-dir", required=True, metavar="DIR", help="folder for the TSV files"
    )
    dates.add_argument("--seed", type=int, default=0, help="seed of the draws (default 0)")
    for split, size in DEFAULT_SIZES.items():
        text = f"texts in {split}.tsv (default {size})"
        dates.add_argument(f"--{split}", type=_count, default=size, metavar="N", help=text)
    dates.set_defaults(run=_write_dates)
    join = commands.add_parser("join", help=f"line n of several files as one, {SEPARATOR} between")
    join.add_argument("files", nargs="+", metavar="FILE", help="a source, plain or .gz")
    join.add_argument(
        "--output", required=True, metavar="FILE", help="the file to write; .gz compresses"
    )
    join.set_defaults(run=_join_sources)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _write_dates(options):
    sizes = {split: getattr(options, split) for split in DEFAULT_SIZES}
    for path in write_dates(options.output_dir, sizes, options.seed):
        print(path)


def _join_sources(options):
    print(f"{options.output}: {join_sources(options.files, options.output):,} lines")


def _count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a positive number is expected, not {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
