"""A suite's numbers as a table for people and as JSON for programs."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe_machine, library_versions


def new_report(suite: str, title: str, command: str, settings: dict) -> dict:
    """Returns a report without numbers: `rows`, `lines` and `notes` are for the suite to fill.

    `rows` is a list of dicts, one a side, with the raw numbers; `columns` and `lines` are the
    table as text; `notes` are sentences a reader needs to judge the numbers.
    """
    report = {
        "suite": suite,
        "title": title,
        "command": command,
        "settings": settings,
        "machine": describe_machine(),
        "versions": library_versions(),
        "columns": [],
        "lines": [],
        "rows": [],
        "notes": [],
    }
    load, cores = report["machine"]["load_average"], report["machine"]["cores"]
    if load is not None and load > 0.5 * cores:
        report["notes"].append(
            f"The machine was busy at the start (load average {load} on {cores} cores). Every side "
            "is slowed down, but one whose threads wait for each other often is slowed down more: "
            "repeat the run on an idle machine before you quote a ratio."
        )
    return report


def render(report: dict) -> str:
    """Returns the report as text: title, table, notes, machine, versions, command."""
    machine, versions = report["machine"], report["versions"]
    sets = " ".join(machine["instruction_sets"]) or "instruction sets unknown"
    parts = [
        report["title"],
        "",
        table(report["columns"], report["lines"]),
        "",
        *[f"* {note}" for note in report["notes"]],
        f"machine   {machine['processor']}, {machine['cores']} cores, {sets}, "
        f"{machine['system']}, load {machine['load_average']}",
        "versions  "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f", Python {machine['python']}",
        f"command   {report['command']}",
    ]
    return "\n".join(parts)


def table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Returns aligned text: the first column to the left, the others to the right.

    A line of fewer cells than there are columns ends in running text (a side that is missing).
    """
    full = [line for line in lines if len(line) == len(columns)]
    widths = [
        max([len(column), *(len(line[index]) for line in full)])
        for index, column in enumerate(columns)
    ]
    widths[0] = max([widths[0], *(len(line[0]) for line in lines)])
    rows = [_row(columns, widths), "  ".join("-" * width for width in widths)]
    return "\n".join(rows + [_row(line, widths) for line in lines])


def write_json(path: Path, report: dict) -> None:
    """Writes the report to `path`, whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)


def seconds_text(seconds: float) -> str:
    """Returns seconds with a unit that keeps three digits."""
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds * 1000:.2f} ms"


def range_text(low: float, high: float) -> str:
    """Returns a range of seconds in one unit."""
    if high >= 0.1:
        return f"{low:.3f} to {high:.3f} s"
    return f"{low * 1000:.2f} to {high * 1000:.2f} ms"


def bytes_text(count: float) -> str:
    """Returns bytes in MB (millions), or GB from 1,000 MB on."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _row(cells, widths):
    first, *others = cells
    if len(cells) < len(widths):
        return "  ".join([first.ljust(widths[0]), *others])
    aligned = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return "  ".join([first.ljust(widths[0]), *aligned])
