"""Files that are either complete or absent, whenever the process dies."""

import contextlib
import os
import pathlib


def write_atomically(path: pathlib.Path, content: bytes) -> None:
    """Writes beside `path`, forces it to disk and renames: readers see old or new, whole.

    Raises:
        OSError: If the disk is full or not writable; `path` is then as it was before.
    """
    path = pathlib.Path(path)
    beside = path.with_name(f".incomplete-{path.name}")
    try:
        write_through(beside, content)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_through(path: pathlib.Path, content: bytes) -> None:
    """Writes a file and waits until it is on disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: pathlib.Path) -> None:
    """Waits until a directory's entries, a rename among them, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
