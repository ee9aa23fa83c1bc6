"""Runs experiments one after another; what is done already is not done again.

A training goes on from its last backup, one that is over is left as it is, and an
evaluation is made once for a model. So the same call, after whatever interrupted it, takes up
the work where it was. Each command is a process of its own.
"""

import csv
import json
import pathlib
import subprocess
import sys

from examples.commands import resuming, train_options
from examples.reproduce.experiment import Experiment
from examples.reproduce.results import Outcome


class StepFailed(ValueError):
    """A command of an experiment did not end well."""


def call(arguments: list[str]) -> None:
    """Runs `python -m examples` with these arguments.

    An interruption ends the command too.

    Raises:
        KeyboardInterrupt: If it was interrupted.
        StepFailed: If it failed.
    """
    line = [sys.executable, "-m", "examples", *arguments]
    # A session of its own: a terminal's Ctrl-C does not reach it a second time.
    with subprocess.Popen(line, start_new_session=True) as process:
        try:
            process.wait()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise StepFailed(
            f"`python -m examples {arguments[0]}` ended with status {process.returncode}; what it "
            "printed says why. The same command goes on from here."
        )


def run_experiment(
    experiment: Experiment, data: pathlib.Path, runs: pathlib.Path, quick: bool = False
) -> Outcome:
    """Trains and measures what is not trained and measured yet; returns the outcome.

    Raises:
        ValueError: If a command fails, or a run is there that was started with other options.
        KeyboardInterrupt: If it was interrupted.
    """
    for part in experiment.parts or ("",):
        directories = experiment.runs_of(runs, part)
        trainings = experiment.train(data, runs, part, quick)
        for run, training in zip(directories, trainings, strict=not experiment.measures):
            if not is_trained(run, training):
                begun = run.is_dir() and any(run.iterdir())
                call([*training, "--resume"] if begun else training)
        if numbers_of(experiment, runs, part) is None:
            evaluation = experiment.evaluate(data, runs, part, quick)
            call([*evaluation, "--json", str(directories[0] / experiment.numbers_file)])
    return outcome_of(experiment, runs)


def is_trained(run: pathlib.Path, training: list[str]) -> bool:
    """Returns whether a training with these arguments is over.

    Raises:
        ValueError: If the run was started with others.
    """
    record = resuming.read_record(run)
    if record is None:
        return False
    given = resuming.plain(train_options.parse(training[1], training[2:]))
    resuming.check_arguments(run, record, given)
    return resuming.describe_finished_run(run, record, given) is not None


def is_over(run: pathlib.Path) -> bool:
    """Returns whether the training of a run is over, whatever its arguments were.

    Raises:
        ValueError: If its record is damaged.
    """
    record = resuming.read_record(run)
    return record is not None and record.get("finished") is not None


def outcome_of(experiment: Experiment, runs: pathlib.Path) -> Outcome | None:
    """Returns what an experiment came to, None if it is not done."""
    parts = experiment.parts or ("",)
    numbers = [numbers_of(experiment, runs, part) for part in parts]
    if None in numbers:
        return None
    parts_trained = () if experiment.measures else parts
    trained = [run for part in parts_trained for run in experiment.runs_of(runs, part)]
    return Outcome(dict(zip(parts, numbers, strict=True)), sum(map(_seconds, trained)) / 60)


def numbers_of(experiment: Experiment, runs: pathlib.Path, part: str = "") -> dict | None:
    """Returns what a model was measured to be, None if it, or one it reads, is newer than that."""
    own = [run / "model.keras" for run in experiment.runs_of(runs, part)]
    read = [pathlib.Path(runs, name, "model.keras") for name in experiment.needs]
    path = own[0].parent / experiment.numbers_file
    try:
        numbers = json.loads(path.read_bytes())  # empty as long as the evaluation is going on
        models = [*own, *(model for model in read if model.exists())]
        is_current = path.stat().st_mtime >= max(model.stat().st_mtime for model in models)
    except (OSError, ValueError):
        return None
    return numbers if is_current else None


def _seconds(run):
    with open(run / "history.csv", newline="", encoding="utf-8") as file:
        return float(list(csv.DictReader(file))[-1]["seconds"])
