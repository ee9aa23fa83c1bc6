"""Speed on a GPU: this library on JAX beside Keras' layers, plain loops and PyTorch.

    KERAS_BACKEND=jax python -m benchmarks gpu --json gpu.json
    python -m benchmarks gpu --only additive "decoding Transformer" --max-seconds 100
    python -m benchmarks gpu --small                                        # on a CPU, in a minute
    python -m benchmarks gpu --compile           # what an H100 would launch; no GPU is needed

Two ceilings come first, a copy and matrix products on random data; the share of a row is its floor
on these ceilings over its time, with F where the floor is that of the products, B that of the
memory, T that of the hyperbolic tangents. Float32 products run in TF32 on both libraries, as JAX
has it by default. Every row is built before the first is timed; then they take turns. A number is
the time of a burst of calls until the device is done, over the calls; a call that takes longer
than 20 ms is a burst of its own. Extra memory is what the compiler plans beside arguments and
results on JAX, and the peak of the allocations on PyTorch.

TensorFlow is not needed, PyTorch is optional. A row that fails says so and the others go on.
"""

import concurrent.futures
import importlib.util
import os
import tempfile
import time

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.gpu import compile
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.client import Worker
from benchmarks.harness import BenchmarkError, summary

REPEATS = 9
COLUMNS = ["case", "side", "what", "ms", "quartiles", "share", "extra memory"]
BUILD_SECONDS = {"jax": 120, "torch": 60}
CALL_SECONDS = 30
UNEQUAL = 0.02  # relative difference of two forms of one function that is noted


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    parser.add_argument(
        "--compile", action="store_true", help="compile for an H100, without one, and run nothing"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, nothing to quote")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="cases whose name contains one of these"
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=3600,
        metavar="N",
        help="skip the cases that are left after so long (default: %(default)s)",
    )
    parser.add_argument(
        "--no-compiled", action="store_true", help="leave the sides of torch.compile out"
    )
    add_number(
        parser, "--workers", 1, "processes of JAX, which trace side by side and compile in turn"
    )


def run(arguments, command: str, progress) -> dict:
    """Measures case by case, prints each at once, and returns the filled report."""
    if arguments.compile:
        return compile.run(arguments, command, progress)
    end = time.monotonic() + arguments.max_seconds
    settings = {"small": arguments.small, "only": arguments.only}
    title = f"On a GPU, medians of {arguments.repeats} rounds"
    report = reports.new_report("gpu", title, command, settings)
    report["columns"], report["ceilings"] = COLUMNS, {}
    if not is_installed("jax"):
        raise BenchmarkError("JAX is not installed")
    cases = all_cases(arguments.small)
    if arguments.only:
        wanted = ["ceilings", *arguments.only]
        cases = [case for case in cases if any(name in case.name for name in wanted)]
    suite = Suite(arguments, report, end)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS), flush=True)
    try:
        suite.start()
        for case in cases:
            if time.monotonic() > end:
                report["notes"].append(f"Skipped, the time was used: {case.name}.")
                continue
            progress(case.name)
            suite.measure(case)
    finally:
        suite.stop()
    report["notes"].append(
        "Float32 products: TF32 by default on a GPU, on both libraries. "
        f"Took {arguments.max_seconds - (end - time.monotonic()):.0f} s."
    )
    return report


def is_installed(name: str) -> bool:
    """Returns whether a package can be imported."""
    return importlib.util.find_spec(name) is not None


def render(report: dict) -> str:
    """Returns what follows the table, which was printed while it was measured."""
    return "\n".join(
        ["", *(f"* {note}" for note in report["notes"]), f"command   {report['command']}"]
    )


class Suite:
    """The workers and what they found."""

    def __init__(self, arguments, report, end):
        self._arguments, self._report, self._end = arguments, report, end
        self._folder = tempfile.TemporaryDirectory()
        self._workers = {"jax": [], "torch": []}

    def start(self):
        """Starts the workers and asks them what they run on."""
        shared = {
            "BENCHMARKS_LOCK": os.path.join(self._folder.name, "lock"),
            "KERAS_BACKEND": "jax",
            "OMP_NUM_THREADS": str(self._arguments.threads),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        for _ in range(self._arguments.workers):
            self._workers["jax"].append(Worker("jax", shared))
        if is_installed("torch"):
            self._workers["torch"].append(Worker("torch", shared))
        else:
            self._report["notes"].append("PyTorch is not installed: its rows are missing.")
        for library, workers in self._workers.items():
            for worker in workers[:1]:
                self._report["versions"][library] = self._try(worker, 60, do="describe")

    def stop(self):
        """Ends the workers."""
        for worker in self._all():
            worker.stop()
        self._folder.cleanup()

    def measure(self, case):
        """Builds, times, prints and writes one case."""
        start = time.monotonic()
        rows = [row for row in case.rows if self._workers[row.library]]
        if self._arguments.small or self._arguments.no_compiled:
            rows = [row for row in rows if not row.options.get("compiled")]
        homes, counts = {}, {"jax": 0, "torch": 0}
        for row in rows:
            workers = self._workers[row.library]
            homes[row.name] = workers[counts[row.library] % len(workers)]
            counts[row.library] += 1
        found = self._build(rows, homes)
        seconds = {row.name: [] for row in rows if "error" not in found[row.name]}
        built = time.monotonic()
        for _ in range(self._arguments.repeats):
            for row in rows:
                if row.name in seconds and "error" not in found[row.name]:
                    answer = self._try(homes[row.name], CALL_SECONDS, do="call", side=row.name)
                    if "error" in answer:
                        found[row.name] = answer
                    else:
                        seconds[row.name].append(answer["seconds"])
        for row in rows:
            result = {"case": case.name, "side": row.side, "what": row.what, **found[row.name]}
            if "error" not in result:
                result |= {"seconds": seconds[row.name], **summary(seconds[row.name])}
                if case.name == "ceilings":
                    self._add_ceiling(row, result)
            self._report["rows"].append(result)
        results = self._report["rows"][len(self._report["rows"]) - len(rows) :]
        for row, result in zip(rows, results, strict=True):
            line = self._line(case, row, result)
            self._report["lines"].append(line)
            # A case is named once, as what a terminal shows is limited.
            line = line if row is rows[0] else ["", *line[1:]]
            print("| " + " | ".join(line) + " |", flush=True)
        self._compare(case, rows, found)
        self._report.setdefault("case_seconds", {})[case.name] = [
            round(built - start, 1),
            round(time.monotonic() - built, 1),
        ]
        self._drop()
        if self._arguments.json:
            reports.write_json(self._arguments.json, self._report)

    def _build(self, rows, homes):
        """Builds all rows, each worker its own at the same time."""

        def build(worker):
            own = [row for row in rows if homes[row.name] is worker]
            # PyTorch's are built one by one, as torch.compile may hang or end the process.
            groups = [own] if worker.library == "jax" else [[row] for row in own]
            found = {}
            for group in groups:
                sides = {
                    row.name: {"factory": row.factory, "options": row.options} for row in group
                }
                limit = min(BUILD_SECONDS[worker.library], self._end + 30 - time.monotonic())
                warmup = self._arguments.warmup
                answer = self._try(worker, limit, do="build", sides=sides, warmup=warmup)
                if "error" in answer:
                    answer = {row.name: answer for row in group}
                found |= answer
            return found

        found = {}
        workers = list({id(worker): worker for worker in homes.values()}.values())
        with concurrent.futures.ThreadPoolExecutor(max(1, len(workers))) as pool:
            for answer in pool.map(build, workers):
                found |= answer
        return found

    def _drop(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda worker: self._try(worker, 30, do="drop"), self._all()))

    def _all(self):
        return [worker for workers in self._workers.values() for worker in workers]

    @staticmethod
    def _try(worker, seconds, **request):
        try:
            return worker.ask(seconds, **request)
        except BenchmarkError as error:
            return {"error": str(error)}

    def _add_ceiling(self, row, result):
        """Keeps the best of both libraries."""
        key = row.what if not row.flops else f"product {row.dtype}"
        if "highest" in row.what:
            key += ", highest"
        rate = (row.flops or row.bytes or row.tanhs) / result["median_seconds"]
        ceilings = self._report["ceilings"]
        ceilings[key] = max(rate, ceilings.get(key, 0))

    def _line(self, case, row, result):
        if "error" in result:
            return [case.name, row.side, row.what, "failed", result["error"].replace("|", "/")]
        low, high = (1000 * value for value in result["quartile_seconds"])
        middle = 1000 * result["median_seconds"]
        text = f"{middle:.4g}"
        if case.per > 1:
            text += f" ({middle / case.per:.3g} a token)"
        memory = result.get("extra_bytes")
        return [
            case.name,
            row.side,
            row.what,
            text,
            f"{low:.4g} to {high:.4g}",
            self._share(case, row, result),
            "-" if memory is None else reports.bytes_text(memory),
        ]

    def _share(self, case, row, result):
        """Returns the floor over the time, or a ceiling's rate."""
        if case.name == "ceilings":
            unit = "TFLOP/s" if row.flops else "TB/s" if row.bytes else "T tanh/s"
            work = row.flops or row.bytes or row.tanhs
            return f"{work / result['median_seconds'] / 1e12:.3g} {unit}"
        ceilings = self._report["ceilings"]
        floors = {
            letter: amount / ceilings[key]
            for letter, amount, key in (
                ("F", row.flops, f"product {row.dtype}"),
                ("B", row.bytes, "copy"),
                ("T", row.tanhs, "tanh"),
            )
            if amount and key in ceilings
        }
        if not floors:
            return "-"
        letter = max(floors, key=floors.get)
        result["floor_seconds"] = floors[letter]
        return f"{100 * floors[letter] / result['median_seconds']:.3g} % {letter}"

    def _compare(self, case, rows, found):
        """Notes forms of one function that compute different numbers."""
        first = {}
        for row in rows:
            value = found[row.name].get("value")
            if not row.same or value is None:
                continue
            other = first.setdefault(row.same, (row, value))
            if abs(value - other[1]) > UNEQUAL * abs(other[1]):
                self._report["notes"].append(
                    f"{case.name}: {row.name} computes {value:.5g}, {other[0].name} {other[1]:.5g}."
                )
