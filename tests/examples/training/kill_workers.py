"""Kills a worker at random moments of a training, and resumes it to the same bits.

    python tests/examples/training/kill_workers.py --kills 20
    python tests/examples/training/kill_workers.py --kills 20 --workers 4 --seed 5 --only 7

Trains a small translator undisturbed, then once for each kill. A kill is drawn from the seed and
its number: which worker gets SIGKILL, and when in the time that the undisturbed run took from its
start to its end; a moment after the start counts from the first epoch. The others end by
themselves, then all start again. The last backup, which holds weights, averages, optimizer and
seeds, and the history must be those of the undisturbed run.
"""

import argparse
import collections
import dataclasses
import pathlib
import sys
import tempfile
import time
import zlib

import numpy as np
from worker_processes import TRANSLATION, Started, read_history

OPTIONS = (
    *(*TRANSLATION, "--optimizer", "adam", "--learning-rate", "0.01", "--ema-decay", "0.9"),
    *("--dropout", "0.3", "--max-examples", "800", "--epochs", "4"),
)
#: How long the others may take to notice. Before they have met, they wait for minutes.
SECONDS_TO_END = 30


@dataclasses.dataclass(frozen=True)
class Kill:
    """One kill and its consequences.

    Attributes:
        number: Which one it is.
        fraction: The moment, as a part of the undisturbed run.
        victim: The index of the killed worker.
        phase: What the run was doing.
        seconds: How long the others took to end; None if they had to be ended.
        is_equal: Whether the resumed run has the bits of the undisturbed one.
        told: The outputs of the workers, where it has not.
    """

    number: int
    fraction: float
    victim: int
    phase: str
    seconds: float | None
    is_equal: bool
    told: str = ""

    def __str__(self) -> str:
        noticed = "had to be ended" if self.seconds is None else f"ended in {self.seconds:.1f} s"
        return (
            f"{self.number:3}: worker {self.victim} at {self.fraction:.3f}, {self.phase}; the "
            f"others {noticed}; {'equal' if self.is_equal else 'NOT EQUAL'}"
        )


def draw_kill(seed: int, number: int, workers: int) -> tuple[float, int]:
    """Returns the moment of a kill, in [0, 1), and its victim."""
    generator = np.random.default_rng([seed, number])
    return float(generator.random()), int(generator.integers(workers))


def find_phase(directory: pathlib.Path, output: str) -> str:
    """Returns what a run is doing, by its directory and the output of its chief."""
    epoch = output.count("Epoch ")
    if "Done in" in output:
        return "end"
    if epoch:
        history = directory / "history.csv"
        is_measured = history.exists() and len(read_history(history)) == epoch
        return f"backup of epoch {epoch}" if is_measured else f"epoch {epoch}"
    if " parameters" in output:
        return "compilation"
    return "reading of data" if "Waiting for" in output and directory.exists() else "start"


def read_bits(directory: pathlib.Path) -> tuple:
    """Returns what must not differ: a sum of the last backup, and the history."""
    backup = (directory / "backup" / "training.backup").read_bytes()
    return zlib.crc32(backup), read_history(directory)


class Killer:
    """Trains undisturbed, then kills and resumes.

    Args:
        folder: A folder for the runs.
        workers: Number of processes.
        seed: What the kills are drawn from.
    """

    def __init__(self, folder: pathlib.Path, workers: int = 2, seed: int = 1):
        self.folder, self.workers, self.seed = pathlib.Path(folder), workers, seed
        whole = Started(self.folder / "whole", OPTIONS, workers)
        began = time.monotonic()
        _wait_for_epochs(whole)
        self.start_seconds = time.monotonic() - began
        statuses, told = whole.ends()
        self.seconds = time.monotonic() - began
        if any(statuses):
            raise RuntimeError(f"The undisturbed run failed: {told}")
        self.bits = read_bits(whole.directory)

    def kill(self, number: int) -> Kill:
        """Kills one worker of a new run and resumes it."""
        fraction, victim = draw_kill(self.seed, number, self.workers)
        directory = self.folder / f"killed-{number}"
        run = Started(directory, OPTIONS, self.workers)
        moment = fraction * self.seconds
        if moment > self.start_seconds:
            _wait_for_epochs(run)
            moment -= self.start_seconds
        time.sleep(moment)
        phase = find_phase(directory, run.outputs[0].read_text())
        run.processes[victim].kill()
        seconds = self._wait(run)
        told = "".join(output.read_text() for output in run.outputs)
        again = ("--resume",) if directory.is_dir() and any(directory.iterdir()) else ()
        statuses, outputs = Started(directory, (*OPTIONS, *again), self.workers).ends()
        is_equal = not any(statuses) and read_bits(directory) == self.bits
        told = "" if is_equal else "".join([told, *outputs])
        return Kill(number, fraction, victim, phase, seconds, is_equal, told)

    def _wait(self, run):
        """Returns how long the others took to end; None if they did not and were ended."""
        began = time.monotonic()
        while any(process.poll() is None for process in run.processes):
            if time.monotonic() - began > SECONDS_TO_END:
                for process in run.processes:
                    process.kill()
                run.ends()
                return None
            time.sleep(0.05)
        return time.monotonic() - began


def _wait_for_epochs(run):
    """Returns when the first epoch begins, or a process ends."""
    while "Epoch" not in run.outputs[0].read_text():
        if any(process.poll() is not None for process in run.processes):
            return
        time.sleep(0.05)


def main() -> int:
    """Kills as often as asked and prints each; returns 1 if a resumed run differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag, default in (("--kills", 20), ("--workers", 2), ("--seed", 1)):
        parser.add_argument(flag, type=int, default=default, metavar="N")
    parser.add_argument("--only", type=int, metavar="N", help="do this one alone")
    arguments = parser.parse_args()
    numbers = range(arguments.kills) if arguments.only is None else [arguments.only]
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        killer = Killer(pathlib.Path(folder), arguments.workers, arguments.seed)
        print(
            f"undisturbed, {arguments.workers} workers: {killer.seconds:.0f} s, "
            f"{killer.start_seconds:.0f} of them before the first epoch",
            flush=True,
        )
        kills = []
        for number in numbers:
            kills.append(killer.kill(number))
            print(kills[-1], flush=True)
            print(kills[-1].told, end="", flush=True)
    phases = collections.Counter(kill.phase for kill in kills)
    print(", ".join(f"{phase}: {count}" for phase, count in phases.items()))
    print(f"{sum(kill.is_equal for kill in kills)} of {len(kills)} equal")
    return 0 if all(kill.is_equal for kill in kills) else 1


if __name__ == "__main__":
    sys.exit(main())
