"""What was left out of the data and why: counted, shown by line number, never silent."""

import collections
import dataclasses


class DataError(ValueError):
    """Data that cannot be used; its one-line text names the file and the remedy."""


@dataclasses.dataclass(frozen=True)
class BadLine:
    """A line that is not used: in which file, which one (from 1), and why."""

    file: str
    line: int
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


class Report:
    """Counts lines left out, and keeps the first of each kind for the reader's eyes.

    Args:
        keep: How many lines of each reason to remember; the rest is only counted.

    Example:

    >>> report = Report()
    >>> report.add(BadLine("train.de", 17, "empty"))
    >>> report.used = 2
    >>> print(report)
    2 pairs used, 1 left out: 1 empty
    train.de:17: empty
    """

    def __init__(self, keep: int = 3):
        self.keep = keep
        self.used = 0
        self.counts: dict[str, int] = {}
        self._first = collections.defaultdict(list)

    @property
    def left_out(self) -> int:
        """How many pairs are not used."""
        return sum(self.counts.values())

    def add(self, bad: BadLine) -> None:
        """Counts one line that is not used."""
        self.counts[bad.reason] = self.counts.get(bad.reason, 0) + 1
        if len(self._first[bad.reason]) < self.keep:
            self._first[bad.reason].append(bad)

    def count(self, reason: str, number: int) -> None:
        """Counts pairs that are not used and whose lines are not known."""
        if number:
            self.counts[reason] = self.counts.get(reason, 0) + number

    def refuse(self, name: str) -> None:
        """Raises if anything of `name` was left out.

        Raises:
            DataError: How many lines are bad, and the first ones.
        """
        if self.left_out:
            raise DataError(
                f"{self.describe(name)}. Repair them or leave them out with --invalid-lines skip "
                "(from Python, on_bad_line='skip')."
            )

    def examples(self) -> list[BadLine]:
        """Returns the first lines of each reason, in the order in which reasons came up."""
        return [bad for reason in self.counts for bad in self._first[reason]]

    def describe(self, name: str) -> str:
        """Returns how many lines of `name` are bad, and the first ones, in one line."""
        several = "s" if self.left_out > 1 else ""
        told = "; ".join(str(bad) for bad in self.examples())
        return f"{self.left_out:,} bad line{several} in {name}: {told}"

    def summary(self) -> str:
        """Returns the counts in one line."""
        pairs = "pair" if self.used == 1 else "pairs"
        if not self.counts:
            return f"{self.used:,} {pairs} used, none left out"
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.counts.items())
        return f"{self.used:,} {pairs} used, {self.left_out:,} left out: {reasons}"

    def __str__(self) -> str:
        lines = [self.summary()]
        for reason, count in self.counts.items():
            lines += [str(bad) for bad in self._first[reason]]
            if count > len(self._first[reason]) > 0:
                lines.append(f"... and {count - len(self._first[reason]):,} more {reason}")
        return "\n".join(lines)
