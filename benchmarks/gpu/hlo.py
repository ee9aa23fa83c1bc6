"""Counts what a compiled program launches, from the text of its optimized HLO."""

import re
from dataclasses import dataclass

#: Instructions of a sequential computation that are a kernel or a library's call.
_KERNEL = re.compile(
    r"= [^=]*? (?:fusion|custom-call|sort|copy|reduce|transpose|dot|scatter|gather|convolution"
    r"|select-and-scatter|cholesky|triangular-solve|rng-bit-generator|dynamic-update-slice"
    r"|dynamic-slice|concatenate|broadcast|iota|pad|slice)\("
)
_COMPUTATION = re.compile(r"(ENTRY )?(%\S+) \(")
_TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True)
class Launches:
    """What a call of a program launches.

    Attributes:
        total: Kernels and library calls, with loops multiplied by their turns and the branches of
            conditionals that launch most.
        at_least: The same with the branches that launch least.
        a_turn: Those of a turn of the loop that launches most, or None without a loop.
        conditionals: Conditionals inside of loops: for each the host reads a number in every turn.
    """

    total: int
    at_least: int
    a_turn: int | None
    conditionals: int


def count_launches(text: str, turns: int = 1) -> Launches:
    """Returns what a call launches.

    Args:
        text: The module after all optimizations.
        turns: Turns of a loop whose end depends on data.
    """
    return _Module(text, turns).count()


class _Module:
    def __init__(self, text, turns):
        self._turns, self._loops, self._conditionals = turns, {}, 0
        self._computations, self._entry = {}, ""
        for block in re.split(r"\n(?=(?:ENTRY )?%\S+ \()", text):
            head = _COMPUTATION.match(block)
            if head:
                self._computations[head[2]] = block
                self._entry = block if head[1] else self._entry

    def count(self):
        at_least = self._count(self._entry, min)
        self._loops, self._conditionals = {}, 0
        total = self._count(self._entry, max)
        longest = max(self._loops.values(), default=(0, None))
        return Launches(total, at_least, longest[1], self._conditionals)

    def _count(self, block, choose, is_in_loop=False):
        total = 0
        for line in block.splitlines():
            if " while(" in line:
                name = re.search(r"body=(%[^,\s]+)", line)[1]
                known = _TRIPS.search(line)
                turns = int(known[1]) if known else self._turns
                in_a_turn = self._count(self._computations[name], choose, is_in_loop=True)
                self._loops[name] = (turns * in_a_turn, in_a_turn)
                total += turns * in_a_turn
            elif " conditional(" in line:
                self._conditionals += is_in_loop
                branches = map(self._computations.get, _find_branches(line))
                total += choose(self._count(block, choose, is_in_loop) for block in branches)
            elif " call(" in line:
                name = re.search(r"to_apply=(%[^,\s]+)", line)[1]
                total += self._count(self._computations[name], choose, is_in_loop)
            elif _KERNEL.search(line):
                total += 1
        return total


def _find_branches(line):
    names = re.search(r"branch_computations=\{([^}]*)\}", line)
    if names:
        return names[1].split(", ")
    return re.findall(r"(?:true|false)_computation=(%[^,\s]+)", line)
