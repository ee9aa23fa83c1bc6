"""`python -m examples list`: the systems there are."""

from examples.systems import SYSTEMS

SUMMARY = "list the systems"
EPILOG = """\
Train one with `python -m examples train SYSTEM --run DIR`.
"""


def add_arguments(parser) -> None:
    """`list` has no options."""


def run(arguments) -> None:
    """Prints a line a system."""
    width = max(map(len, SYSTEMS))
    for name, system in SYSTEMS.items():
        print(f"{name:<{width}}  {system.module.TITLE} ({system.module.REFERENCE})")
