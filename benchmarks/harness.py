"""Interleaved measurements: every side lives in a process of its own and they take turns.

Two numbers taken minutes apart on a shared machine cannot be compared. So all sides of a
comparison are built and warmed up first, each in its own process, and then called in turn
(A B C A B C ...): what slows the machine down for a while slows all of them. Separate
processes keep the libraries' thread pools, allocators and environment variables apart; a
waiting process blocks on a pipe and uses no CPU time.
"""

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Lets the thread pool of the side that just ran go to sleep before the next one starts.
SETTLE_SECONDS = 0.05


class BenchmarkError(RuntimeError):
    """A side could not be built or failed while it was measured."""


@dataclass(frozen=True)
class Case:
    """One side of a comparison.

    Args:
        name: What the table calls it, unique within the comparison.
        factory: `"module:function"`. Called once in the side's own process with `options` as
            keyword arguments, it returns the callable that is measured. That one takes nothing,
            does one unit of work to the end, and returns a float that proves it (a loss).
        options: Keyword arguments of the factory; they travel as JSON.
        needs: Modules the side imports that may be absent, such as `("torch",)`.
        group: The dependency group of this project that installs them.
    """

    name: str
    factory: str
    options: dict = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    group: str = "benchmarks"

    def find_missing(self) -> str | None:
        """Returns why this side cannot run here and what to install, or None if it can."""
        absent = [module for module in self.needs if importlib.util.find_spec(module) is None]
        if not absent:
            return None
        return (
            f"not measured: {' and '.join(absent)} not installed (pip install --group {self.group})"
        )


class Side:
    """A running process that holds one built case; use it as a context manager."""

    def __init__(self, case: Case, threads: int, environment: dict[str, str] | None = None):
        self.case = case
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            cwd=ROOT,
            env={**side_environment(threads), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()  # the worker ends when its input does
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def build(self) -> dict:
        """Builds the case in its process and returns the worker's answer."""
        return self._ask(do="build", factory=self.case.factory, options=self.case.options)

    def call(self, times: int = 1) -> list[float]:
        """Calls the case `times` times and returns the seconds each call took."""
        return self._ask(do="call", times=times)["seconds"]

    def call_for_cpu_time(self) -> list[float]:
        """Calls the case once and returns the seconds that all cores spent on it."""
        return self._ask(do="cpu")["seconds"]

    def call_for_memory(self, times: int = 1) -> dict:
        """Calls the case and returns resident bytes `before` the calls and the `peak` in them."""
        return self._ask(do="memory", times=times)

    def _ask(self, **request) -> dict:
        self.send(**request)
        return self.receive()

    def send(self, **request) -> None:
        """Sends a request, see `benchmarks.worker`; `receive` waits for its answer."""
        with contextlib.suppress(BrokenPipeError):  # `receive` says so
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def receive(self) -> dict:
        """Returns the answer to what was sent.

        Raises:
            BenchmarkError: If the process ended or the request failed.
        """
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"The process of {self.case.name!r} ended. {self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchmarkError(f"{self.case.name!r} failed: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        tail = self._errors.read().decode(errors="replace").strip().splitlines()[-5:]
        killed = " (killed, perhaps for want of memory)" if status == -9 else ""
        return f"Exit status {status}{killed}. " + " | ".join(tail)


def side_environment(threads: int) -> dict[str, str]:
    """Returns the environment of a side: the same number of threads for every library.

    How threads wait is left as each library has it: their pools spin for a few milliseconds at
    most, less than the pause between two sides, and forcing `OMP_WAIT_POLICY=PASSIVE` would slow
    PyTorch's many small operations down.
    """
    count = str(threads)
    return {
        **os.environ,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_NUM_INTEROP_THREADS": count,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "KERAS_BACKEND": "tensorflow",
    }


def available_cores() -> int:
    """Returns the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_times(
    cases: Sequence[Case],
    repeats: int,
    *,
    threads: int,
    warmup: int = 2,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, dict]:
    """Measures all cases in turn and returns a dict of results by case name.

    Args:
        cases: Sides to compare. A side whose `needs` are not installed is skipped and said.
        repeats: Number of rounds; each round calls every side once, in the order given.
        threads: Threads every side may use.
        warmup: Calls of each side before the first round, the compiling one included.
        progress: Receives one line a stage.

    Returns:
        For each case either `{"missing": reason}` or a dict of `seconds` (a list, one entry a
        round), `median_seconds`, `quartile_seconds` (low, high), `fastest_seconds`, and
        `first_call_seconds` (tracing and compiling included).

    Raises:
        BenchmarkError: If a side cannot be built, fails, or computes a number that is not finite.
    """
    results = {case.name: {"missing": case.find_missing()} for case in cases if case.find_missing()}
    sides = []
    try:
        for case in cases:
            if case.name in results:
                continue
            progress(f"building {case.name}")
            side = Side(case, threads)
            sides.append(side)
            side.build()
            first, *_ = side.call(max(1, warmup))
            results[case.name] = {"seconds": [], "first_call_seconds": first}
        for number in range(repeats):
            progress(f"round {number + 1} of {repeats}")
            for side in sides:
                time.sleep(SETTLE_SECONDS)
                results[side.case.name]["seconds"] += side.call()
    finally:
        for side in sides:
            side.__exit__(*sys.exc_info())
    for side in sides:
        results[side.case.name].update(summary(results[side.case.name]["seconds"]))
    return {case.name: results[case.name] for case in cases}


def measure_memory(
    cases: Sequence[Case],
    repeats: int = 3,
    *,
    threads: int,
    calls: int = 2,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, dict]:
    """Measures the extra peak memory of all cases, each time in a fresh process.

    Extra is the peak resident set during the calls minus the resident set just before the first
    one, when the libraries are loaded, the inputs made and the weights built.

    Returns:
        For each case either `{"missing": reason}` or a dict of `extra_bytes` (a list, one entry
        a repeat) and `median_extra_bytes`.
    """
    results = {}
    for case in cases:
        reason = case.find_missing()
        results[case.name] = {"missing": reason} if reason else {"extra_bytes": []}
    for number in range(repeats):
        for case in cases:
            if "missing" in results[case.name]:
                continue
            progress(f"memory of {case.name}, {number + 1} of {repeats}")
            with Side(case, threads) as side:
                side.build()
                answer = side.call_for_memory(calls)
            results[case.name]["extra_bytes"].append(answer["peak"] - answer["before"])
    for result in results.values():
        if "extra_bytes" in result:
            result["median_extra_bytes"] = int(statistics.median(result["extra_bytes"]))
    return results


def summary(seconds: Sequence[float]) -> dict:
    """Returns median, quartiles and fastest of a list of at least one measurement."""
    low, middle, high = (
        statistics.quantiles(seconds, n=4, method="inclusive")
        if len(seconds) > 1
        else [seconds[0]] * 3
    )
    return {
        "median_seconds": middle,
        "quartile_seconds": [low, high],
        "fastest_seconds": min(seconds),
    }
