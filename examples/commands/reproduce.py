"""`python -m examples reproduce`: the experiments of docs/results.md, one after another."""

import fnmatch
import os
import pathlib
import shlex
import sys

from examples.commands.arguments import UsageError
from examples.data.report import DataError
from examples.reproduce import results, running, seeds
from examples.reproduce.experiments import EXPERIMENTS

SUMMARY = "run the experiments of docs/results.md, one after another"
EPILOG = """\
examples:
  python -m examples reproduce --list
  python -m examples reproduce --data D multi30k-rnnsearch
  python -m examples reproduce --data D "multi30k-*" --dry-run
  python -m examples reproduce --data D                     all of them: many hours

D is the folder that holds multi30k/, g2p_cmudict/ and so on. Interrupt it when you like: the same
command goes on with the run that was in work, and does nothing again that is done. A row of each
finished experiment goes into the page of the results. An experiment that reads the run of another
is refused unless that one is trained or named too. Models are chosen on validation data; test data
is read by the last command of an experiment only.
"""
QUICK_RESULTS = "results.md"


def add_arguments(parser) -> None:
    """Adds the options of `reproduce`."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments, or patterns (default: all)"
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the data sets")
    parser.add_argument(
        "--runs", metavar="DIR", default="runs", help="where the runs go (default: %(default)s)"
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="the page that gets the rows (default: docs/results.md; RUNS/quick/results.md for "
        "--quick)",
    )
    parser.add_argument(
        "--list", action="store_true", help="only tell the experiments, and which are done"
    )
    parser.add_argument("--dry-run", action="store_true", help="only tell the commands")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few pairs and one epoch, to see that everything runs; in RUNS/quick",
    )


def run(arguments) -> None:
    """Runs the experiments named; tells those that failed at the end."""
    names = _choose_experiments(arguments.names)
    runs = pathlib.Path(arguments.runs, "quick" if arguments.quick else "")
    if arguments.list:
        _tell(names, runs)
        return
    if arguments.data is None:
        raise UsageError("Name the folder of the data sets with --data.")
    data = pathlib.Path(arguments.data)
    if arguments.dry_run:
        for name in names:
            _tell_commands(EXPERIMENTS[name], data, runs, arguments.quick)
        return
    _check_files(names, data)
    _check_runs(names, runs, arguments)
    _tell_missing_rows(names, runs)
    default = runs / QUICK_RESULTS if arguments.quick else pathlib.Path("docs", "results.md")
    page = pathlib.Path(arguments.results or default)
    failed = [name for name in names if not _run(name, data, runs, page, arguments.quick)]
    if failed:
        raise ValueError(f"{len(failed)} of {len(names)} failed: {', '.join(failed)}.")


def _choose_experiments(patterns):
    names = list(EXPERIMENTS)
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UsageError(
                f"There is no experiment {pattern!r}. `python -m examples reproduce --list` tells "
                "them."
            )
    wanted = patterns or ["*"]
    return [name for name in names if any(fnmatch.fnmatch(name, each) for each in wanted)]


def _check_files(names, data):
    """Raises before anything is run if a file is not there."""
    for name in names:
        for file in EXPERIMENTS[name].files(data):
            if not os.access(file, os.R_OK):
                raise DataError(
                    f"{file}, which {name} needs, cannot be read. Name the folder of the data sets "
                    "with --data."
                )


def _check_runs(names, runs, arguments):
    """Raises before anything is run if an experiment reads a run that will not be there."""
    for name in names:
        missing = [need for need in _find_missing(name, runs) if need not in names]
        if missing:
            line = ["python", "-m", "examples", "reproduce"]
            for option in ("data", "runs", "results"):
                value = getattr(arguments, option)
                line += [f"--{option}", value] if value else []
            line += ["--quick"] if arguments.quick else []
            raise UsageError(
                f"{_needs_text(name, missing, runs)} Name them all, in one command: "
                f"`{shlex.join([*line, *missing, name])}`."
            )


def _find_missing(name, runs):
    """The experiments whose runs this one has yet to read and that are not trained to their end."""
    if running.outcome_of(EXPERIMENTS[name], runs) is not None:
        return []
    return [need for need in EXPERIMENTS[name].needs if not running.is_over(runs / need)]


def _needs_text(name, missing, runs):
    which = "runs of {}, which are" if len(missing) > 1 else "run of {}, which is"
    return f"{name} reads the {which.format(', '.join(missing))} not trained to the end in {runs}."


def _tell_missing_rows(names, runs):
    """Prints which goals cannot be compared: the experiment they are relative to has no row."""
    for name in names:
        for other in EXPERIMENTS[name].beside:
            if other not in names and running.outcome_of(EXPERIMENTS[other], runs) is None:
                print(
                    f"{name}: its goal is relative to {other}, which is not measured in {runs}, so "
                    "its row will not say whether it is met. Name both to know."
                )


def _run(name, data, runs, page, quick):
    """Runs one experiment and writes its row; returns whether it went well."""
    experiment = EXPERIMENTS[name]
    print(f"== {name}: {experiment.task}, {experiment.model}", flush=True)
    missing = _find_missing(name, runs)
    if missing:  # it was named too, and has failed
        print(_needs_text(name, missing, runs), file=sys.stderr)
        return False
    try:
        outcome = running.run_experiment(experiment, data, runs, quick)
    except ValueError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return False
    others = {other: running.outcome_of(EXPERIMENTS[other], runs) for other in EXPERIMENTS}
    others = {other: found for other, found in others.items() if found is not None}
    row = results.row(experiment, outcome, others)
    commands = results.command_text(experiment, quick)
    page.parent.mkdir(parents=True, exist_ok=True)
    table = seeds.table(experiment, outcome.parts)
    results.write(page, {name: (row, commands, table)}, list(EXPERIMENTS))
    print(f"{row}\nThe row is in {page}.", flush=True)
    return True


def _tell(names, runs):
    width = max(map(len, names))
    for name in names:
        experiment = EXPERIMENTS[name]
        done = "done" if running.outcome_of(experiment, runs) else "to do"
        goals = ", ".join(map(results.goal_text, experiment.goals)) or "no goal"
        print(f"{name:<{width}}  {done:<5}  {experiment.minutes:3g} min  {goals}")


def _tell_commands(experiment, data, runs, quick):
    for part in experiment.parts or ("",):
        trainings = experiment.train(data, runs, part, quick)
        for line in (*trainings, experiment.evaluate(data, runs, part, quick)):
            print(shlex.join(["python", "-m", "examples", *line]))
