"""`python -m examples list`: the systems there are."""

import itertools

from examples.systems import SYSTEMS

SUMMARY = "list the systems"
EPILOG = """\
Train one with `python -m examples train SYSTEM --run DIR`, those marked [--paper] with that option
in the sizes of their papers.
"""


def add_arguments(parser) -> None:
    """`list` has no options."""


def run(arguments) -> None:
    """Prints the systems of each family, a line each: its name, what it is, the paper."""
    width = max(map(len, SYSTEMS))
    title_width = max(len(system.module.TITLE) for system in SYSTEMS.values())
    systems = sorted(SYSTEMS.values(), key=lambda system: system.family != "translation")
    for family, members in itertools.groupby(systems, key=lambda system: system.family):
        print(f"{family}:")
        for system in members:
            title, paper = system.module.TITLE, system.module.REFERENCE
            mark = " [--paper]" if hasattr(system.module, "PAPER") else ""
            print(f"  {system.name:<{width}}  {title:<{title_width}}  {paper}{mark}")
