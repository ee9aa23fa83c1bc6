"""Checkpoints: one directory each, complete or absent.

    checkpoints/
      checkpoint-000012/   variables.npz, checkpoint.json     all that a run needs to go on
      weights-000007/      variables.npz, checkpoint.json     weights a checkpoint refers to

A directory is written beside its place, forced to disk and renamed. `checkpoint.json`
holds the record (epoch, batch, best metric, ...), the shape and type of every array and
a digest of both files. Numbers go up and never come twice; the last few checkpoints are
kept, with the weights they refer to (the best ones, snapshots to average).

The arrays are grouped, `{"model": [...], "optimizer": [...], ...}`. The model's group is
`model.variables`, which unlike `model.weights` holds the seed states too; without them
dropout would repeat itself after a restart.
"""

import hashlib
import io
import json
import pathlib
import re
import shutil
import zipfile

import numpy as np

from keras_attention import validation
from keras_attention.export import atomic_files

FORMAT = 1
ARRAYS, RECORD = "variables.npz", "checkpoint.json"


class CheckpointError(ValueError):
    """A checkpoint that does not fit the model, or none that can be read."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint that is incomplete or whose content has changed."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: The folder they live in; created when missing.
        keep: Positive int, how many checkpoints are kept.
        report: Called with a line of text when something is worth knowing.
    """

    def __init__(self, directory: pathlib.Path, keep: int = 2, report=print):
        self.directory = pathlib.Path(directory)
        self.keep = validation.check_positive_int("Checkpoints", "keep", keep)
        self.report = report
        self.directory.mkdir(parents=True, exist_ok=True)
        atomic_files.remove_abandoned_parts(self.directory)

    def names(self, kind: str = "checkpoint") -> list[str]:
        """Returns the names of what is there, oldest first."""
        pattern = re.compile(rf"{kind}-\d{{6,}}")
        found = [p.name for p in self.directory.iterdir() if pattern.fullmatch(p.name)]
        return sorted(found, key=_number)

    def write(self, groups: dict, record: dict, weights=()) -> str:
        """Writes a checkpoint, removes the oldest ones and returns its name.

        Args:
            groups: Dict of lists of variables or arrays.
            record: What JSON can hold.
            weights: Names of written weights the checkpoint refers to and keeps alive.

        Raises:
            OSError: If it cannot be written; the earlier checkpoints are untouched.
        """
        name = self._write("checkpoint", groups, {**record, "weights": list(weights)})
        self._remove_old()
        return name

    def write_weights(self, arrays: list) -> str:
        """Writes weights alone and returns the name to refer to them."""
        return self._write("weights", {"weights": arrays}, {})

    def read_weights(self, name: str) -> list[np.ndarray]:
        """Returns weights written before.

        Raises:
            DamagedCheckpoint: If they are missing or have changed.
        """
        return self._read(name)[0]["weights"]

    def restore(self, groups: dict, check=lambda record: None) -> dict | None:
        """Puts the newest sound checkpoint into the variables and returns its record.

        A damaged checkpoint is reported and the one before it taken. Nothing is assigned
        before everything has been read, compared and accepted by `check(record)`.

        Returns:
            The record, or None when there is no checkpoint at all.

        Raises:
            CheckpointError: If all are damaged, or the variables are not those saved.
        """
        names = self.names()
        for name in reversed(names):
            try:
                arrays, record = self._read(name)
                for weights in record["weights"]:
                    self._read(weights)
            except DamagedCheckpoint as error:
                self.report(f"{error} Trying the one before.")
                continue
            _compare(name, groups, arrays)
            check(record)
            for group, variables in groups.items():
                for variable, array in zip(variables, arrays[group], strict=True):
                    variable.assign(array)
            return record
        if names:
            raise CheckpointError(
                f"None of the checkpoints in {self.directory} can be read. Start the run again "
                f"in an empty directory. Received: {', '.join(names)}"
            )
        return None

    def _write(self, kind, groups, record):
        numbers = [_number(name) for k in ("checkpoint", "weights") for name in self.names(k)]
        name = f"{kind}-{max(numbers, default=0) + 1:06d}"
        with atomic_files.create_directory(self.directory / name) as beside:
            arrays = {g: [_stored(v) for v in variables] for g, variables in groups.items()}
            content = io.BytesIO()
            np.savez(
                content, **{f"{g}/{i:05d}": a for g in arrays for i, a in enumerate(arrays[g])}
            )
            table = {g: [_described(v) for v in variables] for g, variables in groups.items()}
            record = {"format": FORMAT, "arrays": table, "record": record}
            record["digest"] = _digest(content.getbuffer(), record)
            (beside / ARRAYS).write_bytes(content.getbuffer())
            (beside / RECORD).write_bytes(json.dumps(record, indent=1).encode())
        return name

    def _read(self, name):
        path = self.directory / name
        try:
            record = json.loads((path / RECORD).read_bytes())
            content = (path / ARRAYS).read_bytes()
            digest = record.pop("digest")
            if record["format"] != FORMAT:
                raise CheckpointError(
                    f"{path} was written by another version of the training code. "
                    f"Received: format={record['format']}, expected {FORMAT}"
                )
            if _digest(content, record) != digest:
                raise DamagedCheckpoint(f"{path} is damaged: its digest does not match.")
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {
                    group: [_restored(stored[f"{group}/{i:05d}"], d) for i, d in enumerate(table)]
                    for group, table in record["arrays"].items()
                }
        except (OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise DamagedCheckpoint(f"{path} is damaged: {error}.") from error
        except ValueError as error:
            if isinstance(error, CheckpointError):
                raise
            raise DamagedCheckpoint(f"{path} is damaged: {error}.") from error
        return arrays, record["record"]

    def _remove_old(self):
        names = self.names()
        for name in names[: -self.keep]:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        used = set()
        for name in names[-self.keep :]:
            try:
                record = json.loads((self.directory / name / RECORD).read_bytes())
                used.update(record["record"]["weights"])
            except (OSError, ValueError, KeyError):
                continue
        for name in self.names("weights"):
            if name not in used:
                shutil.rmtree(self.directory / name, ignore_errors=True)


def _number(name):
    return int(name.rpartition("-")[2])


def _digest(content, record):
    digest = hashlib.sha256(content)
    digest.update(json.dumps(record, sort_keys=True).encode())
    return digest.hexdigest()


def _array(variable):
    return variable.numpy() if hasattr(variable, "numpy") else np.asarray(variable)


def _described(variable):
    array = _array(variable)
    name = getattr(variable, "name", "")
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name}


def _stored(variable):
    """NumPy's format does not know bfloat16: such arrays are kept as their bits."""
    array = _array(variable)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _restored(array, description):
    if description["dtype"] == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


def _compare(name, groups, arrays):
    """Raises unless the saved arrays are those of the variables, group by group."""
    for group, variables in groups.items():
        saved = [(a.shape, a.dtype.name) for a in arrays.get(group, [])]
        wanted = [(tuple(d["shape"]), d["dtype"]) for d in map(_described, variables)]
        if saved == wanted:
            continue
        places = [i for i, (s, w) in enumerate(zip(saved, wanted, strict=False)) if s != w]
        if places:
            first = places[0]
            detail = (
                f"`{variables[first].name}` is {wanted[first][1]} {wanted[first][0]} and was "
                f"{saved[first][1]} {saved[first][0]}"
            )
        else:
            detail = f"{len(wanted)} variables and {len(saved)} saved ones"
        raise CheckpointError(
            f"{name} belongs to another model, optimizer or precision. Resume with the flags the "
            f"run was started with, or choose an empty directory. Received ({group}): {detail}"
        )
