"""What `evaluate` does for both families of digits; they differ in the numbers they tell."""

import json
import time
from collections.abc import Callable

from examples.commands import arguments as shared
from examples.digits.opened import read_part
from examples.digits.options import add_part


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_part(parser)
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def measure(arguments, opened, told: Callable[[dict], dict]) -> None:
    """Measures a run on a part, prints the numbers and writes them where that is asked for.

    Args:
        arguments: The options of `evaluate`.
        opened: The run, with `run` and `numbers(group)`.
        told: Function from what was measured to the numbers that people read, by name.
    """
    path = shared.check_writable(arguments.json)
    group = read_part(arguments, opened.run)
    began = time.monotonic()
    measured = opened.numbers(group)
    numbers = {"part": arguments.part, "pictures": len(group[0]["image"]), **told(measured)}
    numbers["seconds"] = time.monotonic() - began
    for name, value in numbers.items():
        print(f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
