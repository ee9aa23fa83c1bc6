"""Files that are whole or absent: written beside their name, then renamed to it."""

import contextlib
import errno
import hashlib
import os
import pathlib
import shutil
import uuid


def sha256(content: bytes) -> str:
    """Returns the SHA-256 digest of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes `content` to `path`; a reader sees the old file or the new one, never a part."""
    with replaced(path) as beside:
        beside.write_bytes(content)


@contextlib.contextmanager
def replaced(path: str | os.PathLike, suffix: str = ""):
    """Yields a name beside `path` and renames what was written there to `path`.

    After an exception `path` is as it was and the name beside it is gone. A killed
    process may leave the hidden file `.<name>.<random>.part<suffix>`; nothing reads it.

    Args:
        path: The file to write.
        suffix: Ending of the name beside it, for writers that look at the ending.

    Yields:
        A `pathlib.Path` in the same directory.
    """
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part{suffix}")
    try:
        yield beside
        _flush(beside)
        os.replace(beside, path)
        _flush(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_directory(path: str | os.PathLike, another=None):
    """Yields a hidden directory beside `path` and renames it to `path`, which must not exist.

    After an exception the hidden directory is gone. A killed process may leave
    `.<name>.<random>.part`, which a model server does not look at.

    Args:
        path: The directory to make. Its parent must exist.
        another: None, or a function that returns another path in the same parent, asked if
            `path` exists by the time of the rename.

    Yields:
        A `pathlib.Path` in the same parent.

    Raises:
        FileExistsError: If `path` exists, at the start or by the time of the rename, and there is
            no `another`.
    """
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    if another is None and path.exists():
        raise FileExistsError(f"{path} exists already.")
    beside.mkdir()
    try:
        yield beside
        for folder, _, names in os.walk(beside):
            for name in names:
                _flush(os.path.join(folder, name))
            _flush(folder)
        while not _renamed(beside, path):
            if another is None:
                raise FileExistsError(f"{path} appeared while it was being written.")
            path = another()
        _flush(path.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _renamed(beside, path) -> bool:
    """Renames the directory `beside` to `path`; False if there is something already."""
    if path.exists():  # an empty directory would be replaced
        return False
    try:
        os.rename(beside, path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False  # it appeared this moment
        raise
    return True


def _flush(path) -> None:
    """Asks the system to put `path` on the disk before what comes next."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
