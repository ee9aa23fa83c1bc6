"""`python -m examples evaluate` for drawing digits."""

import json
import time

from examples.commands import arguments as shared
from examples.digits.generation.opened import open_run
from examples.digits.opened import read_part
from examples.digits.options import add_part

SUMMARY = "measure a run on pictures it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/drawn               the 10,000 test pictures
  python -m examples evaluate runs/drawn --part dev    those it was chosen by

what the numbers mean:
  bound              what a picture costs at most, -log p in nats, with one draw of the latent
                     numbers; the smaller, the better
  reconstruction     the part of it that the pixels cost, given the latent numbers
  kl                 the part of it that the latent numbers cost

Pixels are 0 or 1, drawn by their grey and always the same.
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_part(parser)
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the bound."""
    opened = open_run(arguments.run)
    path = shared.check_writable(arguments.json)
    group = read_part(arguments, opened.run)
    began = time.monotonic()
    measured = opened.numbers(group)
    numbers = {
        "part": arguments.part,
        "pictures": int(measured["pictures"]),
        "bound": measured["loss"],
        "reconstruction": measured["loss"] - measured["kl"],
        "kl": measured["kl"],
        "seconds": time.monotonic() - began,
    }
    for name, value in numbers.items():
        print(f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
