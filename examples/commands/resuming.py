"""`arguments.json`: what a run was started with, so that `--resume` goes on with the same.

Beside the arguments it holds a digest of the encoded data, and how the run finished.
"""

import json
import pathlib

from examples.training.fitting import BACKUP
from keras_attention.data import atomic_files

ARGUMENTS_FILE = "arguments.json"
#: Files of a run that has learned something, or that `examples.jax_training` trains.
RESULTS = ("model.keras", "run.json", "training.npz")
LIMITS = ("epochs", "max_minutes", "patience", "stop_at_metric")
# What may differ when a run goes on: when it ends, what it shows, where its data lies.
CHANGEABLE = {*LIMITS, "checkpoint_seconds", "tensorboard", "xla", "invalid_lines"}
TEXTS = ("source", "target", "pairs", "shards", "text")
SOURCES = (*TEXTS, "documents", "stories", "questions", "mnist")
FILES = {f"{prefix}{name}" for prefix in ("", "validation_") for name in SOURCES}
FILES |= {"guided_alignment"}


def read_record(directory: pathlib.Path) -> dict | None:
    """Returns what the run in `directory` was started with, None if it never got so far.

    Raises:
        ValueError: If the file is damaged.
    """
    path = pathlib.Path(directory) / ARGUMENTS_FILE
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        record = None
    if not isinstance(record, dict) or "model" not in record:
        raise ValueError(
            f"{path} is damaged. Restore it from a copy, or start again in another directory."
        )
    return record


def write_record(directory: pathlib.Path, record: dict) -> None:
    """Writes the record, whole."""
    content = json.dumps(record, indent=2, ensure_ascii=False).encode()
    atomic_files.write_bytes(pathlib.Path(directory) / ARGUMENTS_FILE, content)


def has_backup(directory: pathlib.Path) -> bool:
    """Returns whether there is a backup to go on from."""
    return pathlib.Path(directory, BACKUP, "training.backup").exists()


def check_backup(directory: pathlib.Path) -> None:
    """Raises if a training from the start would replace what a run without a backup has learned.

    Raises:
        ValueError: The file that holds it, or that was packed to learn it elsewhere.
    """
    found = [name for name in RESULTS if pathlib.Path(directory, name).exists()]
    if found and not has_backup(directory):
        raise ValueError(
            f"{directory} holds {found[0]}, but no backup to go on from; nothing was changed. "
            "Restore its backup/ from a copy, or start a run in another directory."
        )


def check_arguments(directory: pathlib.Path, record: dict, arguments: dict) -> None:
    """Raises if a run would go on with other arguments than it was started with.

    Raises:
        ValueError: The first argument that differs and may not.
    """
    changeable = CHANGEABLE | FILES
    if record.get("decay_epochs") is not None:
        changeable -= {"epochs"}  # the rate has fallen, or will, by their number
    for name, value in arguments.items():
        if name in changeable or name not in record or record[name] == value:
            continue
        flag = f"--{name.replace('_', '-')}"
        raise ValueError(
            f"The run in {directory} was started with "
            f"{_format_option(flag, record[name])}. Leave {flag} out to go on with it, or start a "
            f"run in another directory. "
            f"Received: {_format_option(flag, value)}"
        )


def check_data(directory: pathlib.Path, record: dict, digests: dict[str, str]) -> None:
    """Raises if the data is not what the run was started with.

    Raises:
        ValueError: The part of the data that differs.
    """
    for part, digest in digests.items():
        if record.get("data", digests)[part] != digest:
            raise ValueError(
                f"The {part} data is not what the run in {directory} was started with: the files "
                "have changed, or others were named. Resume with the same data, or start a run "
                "in another directory."
            )


def describe_finished_run(directory: pathlib.Path, record: dict, arguments: dict) -> str | None:
    """Returns what to say of a run that is over already, None if it should go on.

    Raises:
        ValueError: If it should, but its backup is gone.
    """
    finished = record.get("finished")
    if finished is None:
        return None
    if any(finished["limits"].get(name) != arguments[name] for name in LIMITS):
        if not has_backup(directory):
            raise ValueError(
                f"The run in {directory} is finished and has no backup to go on from. Start "
                "a run in another directory."
            )
        return None
    name = finished["reason"] if finished["reason"] in LIMITS else "epochs"
    flag = f"--{name.replace('_', '-')}"
    received = f"Received: {_format_option(flag, arguments[name])}"
    over = f"The run in {directory} is finished ({finished['reason']}); nothing was changed."
    if name == "epochs" and record.get("decay_epochs") is not None:
        return (
            f"{over} --decay-epochs has taken its rate to 0: to train longer, start a run in "
            f"another directory. {received}"
        )
    other = "another" if name == "stop_at_metric" else "a larger"
    return f"{over} To train longer, resume it with {other} {flag}. {received}"


def plain(arguments) -> dict:
    """Returns the arguments as JSON can hold them, those of this call left out."""
    left_out = ("command", "resume", "run")
    return {name: value for name, value in vars(arguments).items() if name not in left_out}


def _format_option(flag, value):
    if value is None or value is False:
        return f"no {flag}"
    return flag if value is True else f"{flag} {value}"
