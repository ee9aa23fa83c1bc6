"""`python -m examples evaluate` for recognizing digits."""

import json
import time

from examples.commands import arguments as shared
from examples.digits.opened import read_part
from examples.digits.options import add_part
from examples.digits.recognition.opened import open_run

SUMMARY = "measure a run on pictures it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/digits               the 10,000 test pictures
  python -m examples evaluate runs/digits --part dev    those it was chosen by

what the numbers mean:
  error              share of the digits that are taken for another one, in %
  loss               -log of the probability of the right digit, in nats

The first glimpse is of the middle of the picture, the others are where the model means to look.
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_part(parser)
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the error."""
    opened = open_run(arguments.run)
    path = shared.check_writable(arguments.json)
    group = read_part(arguments, opened.run)
    began = time.monotonic()
    measured = opened.numbers(group)
    numbers = {
        "part": arguments.part,
        "pictures": int(measured["pictures"]),
        "error": 100 * measured["error"],
        "loss": measured["loss"],
        "seconds": time.monotonic() - began,
    }
    for name, value in numbers.items():
        print(f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
