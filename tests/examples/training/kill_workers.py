"""Kills a worker at random moments of a training, and resumes it to the same bits.

    python tests/examples/training/kill_workers.py --kills 20
    python tests/examples/training/kill_workers.py --kills 20 --workers 4 --each 1 --seed 5
    python tests/examples/training/kill_workers.py --kills 20 --first 16    the last four of these

Trains a small translator undisturbed, then again with kills: start or resume, SIGKILL to a worker,
wait until the others have ended, resume; after every few kills to the end. The worker and the
moment, in the time that was left, are drawn from the seed and the number of the kill. The last
backup, which holds weights, averages, optimizer and seeds, and the history must be those of the
undisturbed run.
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

EPOCHS = 4
OPTIONS = (
    *(*TRANSLATION, "--optimizer", "adam", "--learning-rate", "0.01", "--ema-decay", "0.9"),
    *("--dropout", "0.3", "--max-examples", "600", "--epochs", str(EPOCHS)),
)
#: How long the others may take to notice. Before they have met, they wait for minutes.
SECONDS_TO_END = 60


@dataclasses.dataclass(frozen=True)
class Kill:
    """One kill and its consequences.

    Attributes:
        number: Which one it is.
        fraction: The moment, as a part of the time that was left.
        victim: The index of the killed worker.
        phase: What the run was doing.
        seconds: How long the others took to end; None if they had to be ended.
    """

    number: int
    fraction: float
    victim: int
    phase: str
    seconds: float | None

    def __str__(self) -> str:
        noticed = "had to be ended" if self.seconds is None else f"ended in {self.seconds:.1f} s"
        moment = f"worker {self.victim} at {self.fraction:.2f}, {self.phase}"
        return f"{self.number:3}: {moment}; the others {noticed}"


def draw_kill(seed: int, number: int, workers: int) -> tuple[float, int]:
    """Returns the moment of a kill, in [0, 1), and its victim."""
    generator = np.random.default_rng([seed, number])
    return float(generator.random()), int(generator.integers(workers))


def find_phase(directory: pathlib.Path, output: str) -> str:
    """Returns what a run is doing, by its directory and the output of its chief."""
    if "Done in" in output:
        return "end"
    if "Epoch " in output:
        epoch = int(output.rpartition("Epoch ")[2].partition("/")[0])
        return f"backup of epoch {epoch}" if _count_epochs(directory) == epoch else f"epoch {epoch}"
    if "Waiting for" not in output:
        return "imports"
    return "model and backup" if " parameters" in output else "meeting and data"


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

    def kill(self, name: str, number: int) -> Kill:
        """Starts or resumes a run and kills one of its workers."""
        fraction, victim = draw_kill(self.seed, number, self.workers)
        directory = self.folder / name
        left = 1 - _count_epochs(directory) / EPOCHS
        run = self._start(directory)
        moment = fraction * (self.start_seconds + left * (self.seconds - self.start_seconds))
        if moment > self.start_seconds:  # the start does not always take as long
            _wait_for_epochs(run)
            moment -= self.start_seconds
        time.sleep(moment)
        phase = find_phase(directory, run.outputs[0].read_text())
        run.processes[victim].kill()
        return Kill(number, fraction, victim, phase, self._wait(run))

    def finish(self, name: str) -> str:
        """Resumes a run to its end; returns what is wrong with it, "" if nothing is."""
        statuses, told = self._start(self.folder / name).ends(600)
        if any(statuses):
            return f"The resumed run failed: {told}"
        return "" if read_bits(self.folder / name) == self.bits else "The bits differ."

    def _start(self, directory):
        again = ("--resume",) if directory.is_dir() and any(directory.iterdir()) else ()
        return Started(directory, (*OPTIONS, *again), self.workers)

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


def _count_epochs(directory):
    history = directory / "history.csv"
    return len(read_history(directory)) if history.exists() else 0


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
    defaults = {"--kills": 20, "--first": 0, "--workers": 2, "--each": 4, "--seed": 1}
    for flag, default in defaults.items():
        parser.add_argument(flag, type=int, default=default, metavar="N")
    arguments = parser.parse_args()
    phases, failures = collections.Counter(), 0
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        killer = Killer(pathlib.Path(folder), arguments.workers, arguments.seed)
        print(
            f"{arguments.workers} workers, undisturbed: {killer.seconds:.0f} s, "
            f"{killer.start_seconds:.0f} before the first epoch",
            flush=True,
        )
        for number in range(arguments.first, arguments.kills):
            name = f"run-{number // arguments.each}"
            kill = killer.kill(name, number)
            phases[kill.phase] += 1
            print(kill, flush=True)
            if (number + 1) % arguments.each == 0 or number + 1 == arguments.kills:
                wrong = killer.finish(name)
                failures += bool(wrong)
                print(f"     {name}: {wrong or 'equal'}", flush=True)
    print(", ".join(f"{phase}: {count}" for phase, count in sorted(phases.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
