"""Starts the workers of a run as processes of this machine, and reads what they left."""

import csv
import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[3]
#: The smallest translator.
TRANSLATOR = (
    *("rnnsearch", "--units", "8", "--embedding-dim", "7", "--maxout-units", "5", "--no-xla"),
    *("--num-buckets", "1", "--optimizer", "sgd", "--learning-rate", "0.5"),
)
TRANSLATION = (*TRANSLATOR, "--max-examples", "60", "--batch-size", "10")


def make_config(cluster: object, task: object) -> dict[str, str]:
    """Returns the environment variable that describes a cluster."""
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def find_free_ports(count: int) -> list[int]:
    """Returns ports that nothing listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start_workers(line: Sequence[str], outputs: Sequence[pathlib.Path], own=None) -> list:
    """Starts a Python command line once a worker; returns the processes.

    Args:
        line: Words behind `python`.
        outputs: A file for the output of each worker.
        own: Further words for each worker.
    """
    addresses = [f"127.0.0.1:{port}" for port in find_free_ports(len(outputs))]
    processes = []
    for index, output in enumerate(outputs):
        config = make_config({"worker": addresses}, {"type": "worker", "index": index})
        with open(output, "w") as file:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-u", *line, *(own[index] if own else ())],
                    cwd=ROOT,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **config},
                )
            )
    return processes


class Started:
    """Processes of one run; their output lies beside its directory."""

    def __init__(self, directory, options, count=2, own=None, code=("-m", "examples")):
        self.directory = pathlib.Path(directory)
        self.outputs = [pathlib.Path(f"{directory}.{i}.txt") for i in range(count)]
        joined = ("--strategy", "multi-worker") if count > 1 else ()
        line = [*code, "train", *options, "--run", str(directory), *joined]
        self.processes = start_workers(line, self.outputs, own)

    def ends(self, seconds=300):
        """Returns exit statuses and outputs."""
        try:
            statuses = [process.wait(seconds) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        return statuses, [output.read_text() for output in self.outputs]


def read_history(directory: pathlib.Path) -> list[dict[str, float]]:
    """Returns the rows of history.csv without the seconds."""
    with open(directory / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: float(v) for k, v in row.items() if k != "seconds"} for row in rows]
