"""One file of a record and the values of variables, which replaces the previous file atomically.

a line of JSON: {"variables": {group: ["name dtype [shape]", ...]}, ...}
the bytes of each variable, group by group
four bytes: the CRC-32 of everything before them
"""

import json
import math
import pathlib
import re
import zlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_attention.data import atomic_files

Groups = Mapping[str, Sequence[keras.Variable]]


def describe_variables(groups: Groups) -> dict[str, list[str]]:
    """Returns "name dtype [shape]" of every variable of every group.

    The numbers that Keras appends to names differ when a model is created twice: they are left out.
    """
    return {
        group: [
            f"{re.sub(r'_[0-9]+(?=[_/]|$)', '', v.path)} {v.dtype} {_format_shape(v.shape)}"
            for v in variables
        ]
        for group, variables in groups.items()
    }


def _format_shape(shape):
    return json.dumps(list(shape), separators=(",", ":"))


def write_backup(path: pathlib.Path, record: dict, groups: Groups) -> None:
    """Writes `record` and the values of `groups` to `path` atomically.

    At any moment `path` holds the complete old or new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {**record, "variables": describe_variables(groups)}
    checksum = 0
    with atomic_files.replace_file(path) as temporary_path, open(temporary_path, "wb") as file:

        def write(content):
            nonlocal checksum
            checksum = zlib.crc32(content, checksum)
            file.write(content)

        write(json.dumps(record).encode() + b"\n")
        for variables in groups.values():
            for variable in variables:
                array = np.ascontiguousarray(keras.ops.convert_to_numpy(variable))
                write(array.reshape(-1).view(np.uint8))
        file.write(checksum.to_bytes(4, "big"))


def read_backup(path: pathlib.Path) -> tuple[dict, dict[str, list[np.ndarray]]]:
    """Returns the record and the arrays of each group.

    Raises:
        ValueError: If the file is damaged.
    """
    content = path.read_bytes()
    checksum = int.from_bytes(content[-4:], "big")
    if not content.startswith(b"{") or zlib.crc32(memoryview(content)[:-4]) != checksum:
        raise ValueError(
            f"The backup {path} is damaged. Delete it to train from the beginning. "
            f"Received: {len(content)} bytes whose checksum is wrong"
        )
    offset = content.index(b"\n") + 1
    record, arrays = json.loads(content[:offset]), {}
    for group, variables in record["variables"].items():
        arrays[group] = []
        for description in variables:
            _, dtype, shape = description.rsplit(" ", 2)
            shape = json.loads(shape)
            flat = np.frombuffer(content, np.dtype(dtype), math.prod(shape), offset)
            arrays[group].append(flat.reshape(shape).copy())
            offset += flat.nbytes
    return record, arrays
