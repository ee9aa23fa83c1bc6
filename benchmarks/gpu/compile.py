"""What the GPU suite's programs would launch on an H100, from its compiler, without the device.

A floor is the least time that a call can take, the largest of three: a launch costs 1.5
microseconds whatever it does, the products run at the peak, what must be read and written passes
through the memory. Launches from N to M are those of the shorter and of the longer branches of
conditionals.
"""

import importlib.util
import tempfile
import time

from benchmarks import report as reports
from benchmarks.gpu import h100
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.client import Worker
from benchmarks.harness import BenchmarkError

COLUMNS = [
    *("case", "side", "what", "launches", "a turn", "conditionals in loops"),
    *("extra memory", "floor, ms"),
]
COMPILE_SECONDS = 600
INSTALL = 'python -m pip install "keras>=3.15,<4" "jax[cuda12]==0.7.*"'
FLOORS = {"L": "launches", "F": "products", "B": "bytes"}


def run(arguments, command: str, progress) -> dict:
    """Compiles case by case, prints each row at once, and returns the filled report.

    Raises:
        BenchmarkError: If JAX or its plugin for CUDA is not installed.
    """
    if not all(map(importlib.util.find_spec, ("jax", "jax_cuda12_plugin"))):
        raise BenchmarkError(f"JAX's compiler for CUDA is not installed. Install it: {INSTALL}")
    end = time.monotonic() + arguments.max_seconds
    settings = {"small": arguments.small, "only": arguments.only}
    report = reports.new_report("gpu", "Compiled for an H100, not run", command, settings)
    report["columns"] = COLUMNS
    cases = [case for case in all_cases(arguments.small) if case.name != "ceilings"]
    if arguments.only:
        cases = [case for case in cases if any(name in case.name for name in arguments.only)]
    print(_format(COLUMNS))
    print("|" + "---|" * len(COLUMNS), flush=True)
    folder = tempfile.TemporaryDirectory()
    worker = Worker("h100", h100.make_environment(folder.name))
    try:
        report["versions"]["compiler"] = _ask(worker, 120, do="describe")
        for case in cases:
            if time.monotonic() > end:
                report["notes"].append(f"Skipped, the time was used: {case.name}.")
                continue
            progress(case.name)
            name = case.name
            for row in case.rows:
                if row.library == "jax":
                    result = _compile(worker, row)
                    report["rows"].append({"case": case.name, **result})
                    report["lines"].append([case.name, *_tell(row, result, case.per)])
                    # A case is named once, as what a terminal shows is limited.
                    print(_format([name, *report["lines"][-1][1:]]), flush=True)
                    name = ""
            _ask(worker, 60, do="drop")
            if arguments.json:
                reports.write_json(arguments.json, report)
    finally:
        worker.stop()
        folder.cleanup()
    report["notes"] = [note for note in report["notes"] if "busy" not in note]  # nothing is timed
    letters = ", ".join(f"{letter} of the {what}" for letter, what in FLOORS.items())
    report["notes"].append(f"The letter of a floor says whose it is: {letters}.")
    return report


def _compile(worker, row):
    sides = {row.name: {"factory": row.factory, "options": row.options}}
    answer = _ask(worker, COMPILE_SECONDS, do="build", sides=sides, warmup=0)
    result = {"side": row.side, "what": row.what, **answer.get(row.name, answer)}
    if "error" not in result:
        floors = {
            "L": result["launches_at_least"] * h100.LAUNCH_SECONDS,
            "F": row.flops / h100.PEAK[row.dtype],
            "B": row.bytes / h100.BANDWIDTH,
        }
        result["floor_seconds"] = max(floors.values())
        result["floor"] = max(floors, key=floors.get)
    return result


def _tell(row, result, tokens):
    """Returns the cells of a row behind its case."""
    if "error" in result:
        return [row.side, row.what, "failed", result["error"].replace("|", "/"), "", "", ""]
    least, most = result["launches_at_least"], result["launches"]
    a_turn = result["launches_a_turn"]
    floor = f"{1000 * result['floor_seconds']:.3g} {result['floor']}"
    if tokens > 1:
        floor += f" ({1000 * result['floor_seconds'] / tokens:.3g} a token)"
    return [
        row.side,
        row.what,
        f"{least:,}" if least == most else f"{least:,} to {most:,}",
        "-" if a_turn is None else str(a_turn),
        str(result["conditionals_in_loops"]),
        reports.bytes_text(result["extra_bytes"]),
        floor,
    ]


def _format(cells):
    return "| " + " | ".join(cells) + " |"


def _ask(worker, seconds, **request):
    try:
        return worker.ask(seconds, **request)
    except BenchmarkError as error:
        return {"error": str(error)}
