"""Version directories, as a TensorFlow model server reads them: `<base>/<integer>/`."""

import os
import pathlib
import re

LARGEST = 2**63 - 1  # a server reads versions as int64


def existing_versions(base: str | os.PathLike) -> dict[int, pathlib.Path]:
    """Returns the versions under `base`: every entry whose name reads as an int64.

    A server does not look at others, such as a date of twenty digits.
    """
    base = pathlib.Path(base)
    if not base.is_dir():
        return {}
    names = [path for path in base.iterdir() if re.fullmatch(r"[+-]?[0-9]+", path.name)]
    versions = {int(path.name): path for path in names}
    return {number: path for number, path in versions.items() if -LARGEST - 1 <= number <= LARGEST}


def new_version(base: str | os.PathLike, version: int | None = None) -> pathlib.Path:
    """Returns the path of a version that does not exist yet, and makes `base` if need be.

    Args:
        base: The model's base directory.
        version: The version wanted, or None for the one after the highest.

    Raises:
        FileExistsError: If `version` exists, or `base` is a file.
        ValueError: If it is larger than the numbers that a server reads, or is None where the
            largest of these exists.
    """
    if version is not None and version > LARGEST:
        raise ValueError(f"A version is expected to be at most {LARGEST}. Received: {version}")
    base = pathlib.Path(base)
    if base.exists() and not base.is_dir():
        raise FileExistsError(f"{base} is a file. Choose a directory for the exported versions.")
    existing = existing_versions(base)
    following = max([0, *existing]) + 1
    if version is None:
        if following > LARGEST:
            raise ValueError(
                f"A version is expected to be given, as none comes after the largest that a server "
                f"reads. Received: none, beside {existing[LARGEST]}"
            )
        version = following
    elif version in existing:
        another = "another version"
        if following <= LARGEST:
            another += f", or none for the next one, {following}"
        raise FileExistsError(f"{existing[version]} exists already. Choose {another}.")
    base.mkdir(parents=True, exist_ok=True)
    return base / str(version)
