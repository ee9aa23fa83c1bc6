"""`python -m examples train`: a model and its data in, a run directory out."""

import argparse
import contextlib
import functools
import pathlib
import shutil
import time

import keras

from examples import registry
from examples.commands import resuming, train_options
from examples.commands.arguments import UsageError
from examples.commands.options import check_given, check_used, options_of, take
from examples.memory import keep_freed_memory
from examples.recipes.base import Recipe
from examples.training.fitting import train
from examples.training.workers import Workers, make_strategy
from keras_attention.data import atomic_files

SUMMARY = "train a model, on the data made for it or on your own"
EPILOG = """\
`python -m examples train MODEL --help` lists the options and shows examples.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each model, with its own options."""
    parsers = parser.add_subparsers(dest="model", metavar="MODEL", required=True)
    for name, model in registry.MODELS.items():
        add = functools.partial(parsers.add_parser, name, help=model.module.TITLE)
        train_options.make_parser(name, add)


def complete_arguments(
    text_arguments: list[str], arguments: argparse.Namespace
) -> argparse.Namespace:
    """Returns the arguments, what they leave open as the run began or as the paper has it."""
    directory = pathlib.Path(arguments.run)
    _check_directory(directory, arguments.resume)
    began = resuming.read_record(directory) if arguments.resume else None
    if began is not None and began["model"] != arguments.model:
        raise ValueError(
            f"The run in {arguments.run} is one of {began['model']}. Resume it as that. "
            f"Received: {arguments.model}"
        )
    words = text_arguments[text_arguments.index(arguments.model) + 1 :]
    told = train_options.parse(arguments.model, words, began)
    return argparse.Namespace(**{**vars(arguments), **vars(told)})


def run(arguments: argparse.Namespace) -> None:
    """Trains and writes the run directory."""
    keep_freed_memory()
    if arguments.strategy and arguments.dtype == "mixed_float16":
        raise UsageError(
            "--strategy trains in float32 or mixed_bfloat16. Received: --dtype mixed_float16"
        )
    again = f"Start all workers again with --resume; what is in {arguments.run} stays."
    workers = Workers(make_strategy(arguments.strategy), again)
    with workers.quiet(), workers.end_if_worker_is_lost(), contextlib.ExitStack() as locks:
        _run(arguments, workers, locks)


def make_recipe(name: str, arguments: argparse.Namespace) -> Recipe:
    """Returns the recipe of a model with the options of `train NAME`.

    Raises:
        UsageError: An option is missing, or options do not go together.
    """
    model = registry.find(name)
    options = options_of(model.recipe)
    check_given(options, arguments)
    recipe = model.recipe(**take(options, arguments))
    recipe.model_options = take(model.options, arguments)
    check_used(model.options, recipe.model_options, getattr(model.module, "BELONGS_TO", {}))
    recipe.check()
    return recipe


def _run(arguments, workers, locks):
    workers.check_same("options", resuming.plain(arguments))
    directory = pathlib.Path(arguments.run)
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    model, given = registry.find(arguments.model), resuming.plain(arguments)
    recipe = make_recipe(model.name, arguments)
    written_first = {f"{name}.tokenizer" for name in recipe.tokenizer_names}
    # The chief claims the directory first; the others are told what it found.
    record = workers.broadcast(
        _claim(directory, arguments, written_first, locks) if workers.is_chief else None
    )
    if record is not None:
        begun = resuming.has_backup(directory)
        if begun or "finished" in record:
            resuming.check_arguments(directory, record, given)
        over = resuming.describe_finished_run(directory, record, given)
        if over:
            print(over)
            return
        if begun:
            _check_workers(directory, record, workers)
        else:
            record = None  # it begins anew, with what is asked for now
    keras.utils.set_random_seed(arguments.seed)
    is_ours = record is None and workers.is_chief
    new_files = [name for name in written_first if is_ours and not (directory / name).exists()]
    made = made if is_ours else []
    with _remove_on_failure(directory, new_files, made), workers.scope():
        plan = recipe.prepare(model.name, model.build, given, directory, record is None, workers)
    workers.check_same("data", plan.digests)
    if record is None:
        numbers = {"workers": workers.count, "replicas": workers.replicas}
        record = {**given, "data": plan.digests, **numbers}
    else:
        resuming.check_data(directory, record, plan.digests)
        record = {**record, **{name: getattr(arguments, name) for name in resuming.LIMITS}}
    record.pop("finished", None)
    if workers.is_chief:
        resuming.write_record(directory, record)
    try:
        result = _train(directory, plan, workers)
    except KeyboardInterrupt:
        print(
            "Interrupted. To go on from the last backup: "
            f"python -m examples train {arguments.model} --run {directory} --resume"
        )
        raise SystemExit(1) from None
    limits = {name: record[name] for name in resuming.LIMITS}
    finished = {"reason": result.reason, "limits": limits}
    if workers.is_chief:
        resuming.write_record(directory, {**record, "finished": finished})


@contextlib.contextmanager
def _remove_on_failure(directory, names, made):
    """Removes `names` from a run that could not be prepared, and the folders `made` for it."""
    try:
        yield
    except BaseException:
        for name in names:
            shutil.rmtree(directory / name, ignore_errors=True)
        with contextlib.suppress(OSError):  # one holds something else by now
            for folder in made:
                folder.rmdir()
        raise


def _check_workers(directory, record, workers):
    """Raises if a run would go on with a different number of workers or devices."""
    for name, number in (("workers", workers.count), ("replicas", workers.replicas)):
        if record.get(name, number) != number:
            raise ValueError(
                f"The run in {directory} was started with {record[name]} {name}. Their random "
                "numbers would not go on: resume it with as many, or start a run in another "
                f"directory. Received: {number} {name}"
            )


def _train(directory, plan, workers):
    """Trains the model and says how it went; returns the `TrainingResult`."""
    began = time.monotonic()
    result = train(plan, directory, workers)
    minutes = (time.monotonic() - began) / 60
    print(
        f"Done in {minutes:.1f} minutes ({result.reason}): best {plan.settings.monitor} "
        f"{result.best:.4f} in epoch {result.best_epoch}. The run is in {directory}."
    )
    warning = plan.warning and plan.warning(result)
    if warning:
        print(warning)
    return result


def _check_directory(directory, resume):
    """Raises if it is a file, or holds nothing to resume."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file. Name a directory for the run.")
    if resume and not (directory.is_dir() and any(directory.iterdir())):
        raise ValueError(f"There is no run in {directory} to resume. Leave --resume out.")


def _claim(directory, arguments, written_first, locks):
    """Makes and locks the run directory; returns the record of the run to resume, or None.

    Raises if another run is there, or nothing to resume. `written_first` are the names that a run
    of this recipe may hold before it has a record.
    """
    if not arguments.resume:
        directory.mkdir(parents=True, exist_ok=True)
    if directory.is_dir():
        _lock(directory, locks)
    holds = directory.is_dir() and any(directory.iterdir())
    if holds and not arguments.resume:
        raise ValueError(
            f"{directory} is not empty. Name another directory with --run, or go on with "
            "what it holds with --resume."
        )
    record = resuming.read_record(directory) if arguments.resume else None
    if holds and record is None and resuming.has_backup(directory):
        raise ValueError(
            f"The run in {directory} has lost its {resuming.ARGUMENTS_FILE}. Restore it from a "
            "copy, or start again in another directory."
        )
    if arguments.resume and "finished" not in (record or {}):
        resuming.check_backup(directory)
    begun = written_first & {path.name for path in directory.iterdir()} if holds else set()
    if holds and record is None and not begun:
        raise ValueError(
            f"{directory} holds files, but no run to resume. Name the directory of a run, or "
            "start one in an empty directory without --resume."
        )
    return record


def _lock(directory, locks):
    """Keeps other processes from training the run until `locks` is closed."""
    try:
        locks.enter_context(atomic_files.lock_directory(directory))
    except BlockingIOError:
        raise ValueError(
            f"Another process is training the run in {directory}. Wait until it has ended, or name "
            "another directory with --run."
        ) from None
