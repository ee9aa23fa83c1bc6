"""The plan beside the development server: what a request costs there, and latencies under load.

A request that is alone in the server takes the time of `Service.alone`, one among as many as the
server runs at once that of `Service.busy`, and one after a pause more than the former: threads and
cores have to wake up. All hold the protocol, and the client, which shares the machine. Under a load
a request takes something between, so queues of these times enclose the latencies to be expected.

A check is valid only on an idle machine. Whether it was idle is measured too: the cores that other
processes used before the load and under it, and the requests that could not be sent in time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import ROOT, BenchmarkError, side_environment
from benchmarks.other_work import watch_other_work
from benchmarks.serve import MODEL, ServerProcess
from benchmarks.serving_queue import WARM_UP, Setting, compute_capacity, simulate

UTILIZATIONS = (0.3, 0.5, 0.7)
SERVICE_REQUESTS, SERVICE_SECONDS = 200, 20.0  # whichever comes first
SIMULATED_RUNS, COVERAGE = 100, 95.0
IDLE_SECONDS = 2.0
MAX_OTHER_CORES = 0.1
LATE_SECONDS, MAX_LATE_FRACTION = 0.005, 0.01


@dataclass(frozen=True)
class Service:
    """Seconds of requests of one row through a server, the protocol and the client included.

    Args:
        instances: Requests that the server runs at once.
        alone: Seconds of each request of a single client.
        busy: Seconds of each request where `instances` clients ask at once.
    """

    instances: int
    alone: Sequence[float]
    busy: Sequence[float]

    @property
    def capacity(self) -> float:
        """Requests a second beyond which the queue grows without end."""
        return compute_capacity(Setting(self.instances), {1: self.busy})

    def predict(
        self, rate: float, requests: int, percentile: float, after_pauses: Sequence[float] = ()
    ) -> tuple[float, float]:
        """Returns the seconds between which a percentile of the latency is expected.

        Args:
            rate: Requests a second.
            requests: Length of a run; of short ones the percentiles vary more.
            percentile: Between 0 and 100.
            after_pauses: Seconds of requests of a client that pauses `1 / rate` between them.
        """
        ends = []
        for times in filter(len, (self.alone, self.busy, after_pauses)):
            found = [
                np.percentile(
                    simulate(Setting(self.instances), {1: times}, rate, requests, seed), percentile
                )
                for seed in range(SIMULATED_RUNS)
            ]
            ends += np.percentile(found, [50 - COVERAGE / 2, 50 + COVERAGE / 2]).tolist()
        return min(ends), max(ends)


class Check:
    """A development server that is measured; use it as a context manager.

    Args:
        path: Directory of the version, inside its base directory.
        signature: The signature that is asked.
        rows: Inputs of a row each.
        instances: Requests that run at once.
        threads: Cores of the server.
        protocol: `"grpc"` or `"http"`.

    Raises:
        BenchmarkError: If the server does not start.
    """

    def __init__(
        self,
        path: Path,
        signature: str,
        rows: list[dict],
        instances: int,
        threads: int,
        protocol: str = "grpc",
    ) -> None:
        environment = {
            "TF_NUM_INTRAOP_THREADS": str(threads // instances),
            "TF_NUM_INTEROP_THREADS": str(threads),
        }
        flags = ("--versions", path.name)
        self.instances = instances
        self._server = ServerProcess(path.parent, instances, flags, environment)
        self._load = {"url": self._server.urls[protocol], "model": MODEL}
        self._load |= {"signature": signature, "rows": rows}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._server.__exit__(*exception)

    def measure_service(self) -> Service:
        """Returns what a request costs alone and with all instances busy."""
        alone, busy = (self._ask_in_turn(clients) for clients in (1, self.instances))
        return Service(self.instances, alone, busy)

    def run(
        self,
        service: Service,
        requests: int,
        percentiles: Sequence[float],
        progress: Callable[[str], None] = lambda message: None,
    ) -> list[dict]:
        """Asks at three rates, at random times; returns a row for each.

        Args:
            service: Measured just before.
            requests: Requests of each rate.
            percentiles: Percentiles of the latency that are compared.
            progress: Receives one line a stage.
        """
        with watch_other_work(self._server.pid) as before:
            time.sleep(IDLE_SECONDS)
        checked = []
        for seed, utilization in enumerate(UTILIZATIONS):
            rate = utilization * service.capacity
            progress(f"open loop, {rate:.1f} requests/s")
            load = {**self._load, "rate": rate, "requests": requests, "seed": seed}
            after_pauses = self._ask_in_turn(1, mean_pause=1 / rate)
            with watch_other_work(self._server.pid) as during:
                found = run_load({"load": "ask", **load})
            row = {"name": "check", "rate": rate, "utilization": utilization}
            row["after_pauses"] = after_pauses
            row |= {"requests": requests, "errors": found["errors"]}
            seconds = found["seconds"][int(WARM_UP * len(found["seconds"])) :]  # as simulated
            for percentile in percentiles:
                predicted = service.predict(rate, requests, percentile, after_pauses)
                row[f"predicted_p{percentile:g}"] = predicted
                row[f"measured_p{percentile:g}"] = float(np.percentile(seconds, percentile))
            row |= {"other_cores_before": before, "other_cores": during}
            row["late"] = sum(delay > LATE_SECONDS for delay in found["delays"])
            row["verdict"] = judge(row, percentiles)
            checked.append(row)
        return checked

    def _ask_in_turn(self, clients: int, mean_pause: float = 0.0) -> list[float]:
        """Returns the seconds of requests of clients that wait for their answers."""
        limits = {"requests": SERVICE_REQUESTS, "max_seconds": SERVICE_SECONDS}
        load = {"load": "ask_in_turn", **self._load, "clients": clients, "mean_pause": mean_pause}
        return run_load({**load, **limits})["seconds"]


def judge(row: dict, percentiles: Sequence[float]) -> str:
    """Returns what a row of a check says: not valid, agrees, or differs; and why.

    Args:
        row: A row of `Check.run` without its verdict.
        percentiles: The percentiles that it compares.

    Example:

    >>> row = {"requests": 100, "errors": 0, "late": 40, "predicted_p95": (0.1, 0.2)}
    >>> row |= {"measured_p95": 0.7, "other_cores_before": [0.0], "other_cores": [0.0]}
    >>> judge(row, [95])
    'not valid, the machine was not idle: 40 of 100 requests were sent late'
    >>> judge({**row, "late": 0}, [95])
    'differs: p95 is 3.50 times what was expected'
    """
    reasons = [
        f"{what} {cores:.1f} cores"
        for what, measured in (
            ("before the load other work took", row["other_cores_before"]),
            ("other work took", row["other_cores"]),
        )
        for cores in measured
        if cores > MAX_OTHER_CORES
    ]
    if row["late"] > MAX_LATE_FRACTION * row["requests"]:
        reasons.append(f"{row['late']} of {row['requests']} requests were sent late")
    if reasons:
        return "not valid, the machine was not idle: " + ", ".join(reasons)
    faults = [f"{row['errors']} requests were refused"] if row["errors"] else []
    for percentile in percentiles:
        measured = row[f"measured_p{percentile:g}"]
        low, high = row[f"predicted_p{percentile:g}"]
        if not low <= measured <= high:
            nearest = high if measured > high else low
            faults.append(f"p{percentile:g} is {measured / nearest:.2f} times what was expected")
    return "differs: " + ", ".join(faults) if faults else "agrees"


def describe(row: dict, percentiles: Sequence[float]) -> str:
    """Returns a row of `Check.run` as a sentence of the report."""
    pairs = []
    for percentile in percentiles:
        low, high = (1000 * seconds for seconds in row[f"predicted_p{percentile:g}"])
        measured = 1000 * row[f"measured_p{percentile:g}"]
        pairs.append(f"p{percentile:g} predicted {low:,.1f} to {high:,.1f} ms, {measured:,.1f} ms")
    return (
        f"Development server, {row['rate']:.1f} requests/s ({100 * row['utilization']:.0f} % of "
        f"what it can do), {row['requests']} requests: {' measured; '.join(pairs)} measured: "
        f"{row['verdict']}."
    )


def run_load(load: dict) -> dict:
    """Runs a function of `open_loop` in a process of its own and returns what it found.

    Raises:
        BenchmarkError: If it fails or nothing was answered.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.open_loop"],
        cwd=ROOT,
        env=side_environment(1),
        input=json.dumps(load) + "\n",
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BenchmarkError(f"The load's process failed: {done.stderr.strip()[-300:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["seconds"]:
        raise BenchmarkError("The server answered no request of the load.")
    return found
