"""Files that are whole or absent: written in a hidden folder beside them, then renamed.

The folder, `.<name>.<random>.part`, is locked while its writer lives. A killed process leaves it
behind; the next writer in the same directory finds it unlocked and removes it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import uuid

PART = re.compile(r"\..+\.[0-9a-f]{32}\.part")


def sha256(content: bytes) -> str:
    """Returns the SHA-256 digest of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes `content` to `path`; a reader sees the old file or the new one, never a part."""
    with replaced(path) as beside:
        beside.write_bytes(content)


@contextlib.contextmanager
def replaced(path: str | os.PathLike, suffix: str = ""):
    """Yields a name in a hidden folder beside `path`; what was written there becomes `path`.

    After an exception `path` is as it was and the folder is gone.

    Args:
        path: The file to write.
        suffix: Ending of the other name, for writers that look at the ending.

    Yields:
        A `pathlib.Path` on the same file system.
    """
    path = pathlib.Path(path)
    with _part(path) as folder:
        beside = folder / f".{path.name}{suffix}"
        yield beside
        _flush(beside)
        os.replace(beside, path)
        _flush(path.parent)


@contextlib.contextmanager
def new_directory(path: str | os.PathLike, another=None):
    """Yields a hidden directory beside `path` and renames it to `path`, which must not exist.

    After an exception the hidden directory is gone. A model server does not look at it.

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
    if another is None and path.exists():
        raise FileExistsError(f"{path} exists already.")
    with _part(path) as beside:
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


def remove_dead_parts(directory: str | os.PathLike) -> None:
    """Removes what killed writers left in `directory`; what a living one is writing stays.

    A folder that cannot be locked, because of its owner or of its file system, stays too.

    Args:
        directory: Where `replaced` and `new_directory` write.
    """
    with os.scandir(directory) as entries:
        parts = [
            e.path for e in entries if PART.fullmatch(e.name) and e.is_dir(follow_symlinks=False)
        ]
    for part in parts:
        with contextlib.suppress(OSError):  # it lives, or is gone meanwhile
            lock = _lock(part)
            try:
                shutil.rmtree(part, ignore_errors=True)
            finally:
                os.close(lock)


@contextlib.contextmanager
def _part(path):
    """Yields a new hidden folder beside `path`, locked, and removes it if it is still there."""
    remove_dead_parts(path.parent)
    beside = lock = None
    while lock is None:
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        beside.mkdir()
        try:
            lock = _lock(beside)
            os.stat(beside)
        except (BlockingIOError, FileNotFoundError):  # taken for dead before it was locked
            lock = _closed(lock)
        except OSError:  # a file system without locks: nobody takes it for dead there
            break
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        _closed(lock)


def _lock(folder) -> int:
    """A descriptor of `folder` that holds its lock until it is closed, if only by a kill."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _closed(descriptor) -> None:
    if descriptor is not None:
        os.close(descriptor)


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
