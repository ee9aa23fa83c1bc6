"""Finds and makes version directories of TensorFlow Serving: `<base>/<integer>/`."""

import os
import pathlib
import re

MAX_VERSION = 2**63 - 1  # TensorFlow Serving reads versions as int64


def find_versions(base: str | os.PathLike[str]) -> dict[int, pathlib.Path]:
    """Returns the versions in `base`: all entries whose name is an int64.

    TensorFlow Serving ignores others, such as a date of twenty digits.
    """
    base = pathlib.Path(base)
    if not base.is_dir():
        return {}
    names = [path for path in base.iterdir() if re.fullmatch(r"[+-]?[0-9]+", path.name)]
    versions = {int(path.name): path for path in names}
    return {
        number: path
        for number, path in versions.items()
        if -MAX_VERSION - 1 <= number <= MAX_VERSION
    }


def make_version_path(base: str | os.PathLike[str], version: int | None = None) -> pathlib.Path:
    """Returns the path of a new version.

    Args:
        base: The model's base directory.
        version: Number of the version, or None for the highest existing version plus 1.

    Raises:
        FileExistsError: If `version` exists, or `base` is a file.
        ValueError: If `version` exceeds int64, or is None and the largest int64 exists.
    """
    if version is not None and version > MAX_VERSION:
        raise ValueError(f"A version is expected to be at most {MAX_VERSION}. Received: {version}")
    base = pathlib.Path(base)
    if base.exists() and not base.is_dir():
        raise FileExistsError(f"{base} is a file. Choose a directory for the exported versions.")
    existing = find_versions(base)
    following = max([0, *existing]) + 1
    if version is None:
        if following > MAX_VERSION:
            raise ValueError(
                f"A version is expected to be given, as none comes after the largest that a server "
                f"reads. Received: none, beside {existing[MAX_VERSION]}"
            )
        version = following
    elif version in existing:
        another = "another version"
        if following <= MAX_VERSION:
            another += f", or none for the next one, {following}"
        raise FileExistsError(f"{existing[version]} exists already. Choose {another}.")
    return base / str(version)
