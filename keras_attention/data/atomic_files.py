"""Writes files and directories atomically: in a hidden folder beside them, then by renaming.

The writer locks the folder, `.<name>.<random>.part`. A killed process leaves an unlocked folder
behind, which the next writer in the same directory removes.
"""

import contextlib
import errno
import hashlib
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Callable, Iterator

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks
    fcntl = None

TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.part")


def sha256(content: bytes) -> str:
    """Returns the SHA-256 digest of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes `content` to `path`; a reader sees the old file or the new one."""
    with replace_file(path) as temporary_path:
        temporary_path.write_bytes(content)


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str], suffix: str = "") -> Iterator[pathlib.Path]:
    """Yields a path in a hidden folder; on exit, renames the file written there to `path`.

    After an exception `path` is unchanged and the folder is removed.

    Args:
        path: The file to write.
        suffix: Suffix of the yielded path, for writers that choose a format by it.

    Yields:
        A `pathlib.Path` on the same file system.
    """
    path = pathlib.Path(path)
    with _make_temporary_folder(path) as folder:
        temporary_path = folder / f".{path.name}{suffix}"
        yield temporary_path
        _flush(temporary_path)
        os.replace(temporary_path, path)
        _flush(path.parent)


@contextlib.contextmanager
def create_directory(
    path: str | os.PathLike[str], make_next_path: Callable[[], pathlib.Path] | None = None
) -> Iterator[pathlib.Path]:
    """Yields a hidden directory beside `path` and renames it to `path`, which must not exist.

    After an exception the hidden directory is removed, and so are the parents that the function
    made, if they are empty. A model server ignores the hidden directory.

    Args:
        path: The directory to create.
        make_next_path: None, or a function that returns a different path in the same parent,
            called if `path` exists at the time of the rename.

    Yields:
        A `pathlib.Path` in the same parent.

    Raises:
        FileExistsError: If `path` exists, at the start or at the time of the rename, and
            `make_next_path` is None.
    """
    path = pathlib.Path(path)
    if make_next_path is None and path.exists():
        raise FileExistsError(f"{path} exists already.")
    with _make_parents(path), _make_temporary_folder(path) as temporary_path:
        yield temporary_path
        for folder, _, names in os.walk(temporary_path):
            for name in names:
                _flush(os.path.join(folder, name))
            _flush(folder)
        while not _try_rename(temporary_path, path):
            if make_next_path is None:
                raise FileExistsError(f"{path} appeared while it was being written.")
            path = make_next_path()
        _flush(path.parent)


@contextlib.contextmanager
def lock_directory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Locks a directory until the context or the process ends.

    A directory that cannot be locked, because of its owner or its file system, is left unlocked.

    Args:
        path: The directory.

    Raises:
        BlockingIOError: If it is locked already, by this process or another one.
    """
    descriptor = None
    try:
        descriptor = _lock(os.path.realpath(path))
    except BlockingIOError:
        raise
    except OSError:
        pass
    try:
        yield
    finally:
        _close_descriptor(descriptor)


def remove_abandoned_parts(directory: str | os.PathLike[str]) -> None:
    """Removes the folders of killed writers in `directory`; those of running writers stay.

    A folder that cannot be locked, because of its owner or its file system, stays too.

    Args:
        directory: The directory in which `replace_file` and `create_directory` write.
    """
    with os.scandir(directory) as entries:
        parts = [
            e.path
            for e in entries
            if TEMPORARY_NAME.fullmatch(e.name) and e.is_dir(follow_symlinks=False)
        ]
    for part in parts:
        with contextlib.suppress(OSError):  # its writer runs, or it was removed meanwhile
            lock = _lock(part)
            try:
                shutil.rmtree(part, ignore_errors=True)
            finally:
                os.close(lock)


@contextlib.contextmanager
def _make_parents(path):
    """Makes the missing parents of `path`; after an exception it removes those that are empty."""
    missing = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # one holds something else by now
            for folder in missing:
                folder.rmdir()
        raise


@contextlib.contextmanager
def _make_temporary_folder(path):
    """Yields a new locked hidden folder beside `path`, and removes it on exit if it exists."""
    remove_abandoned_parts(path.parent)
    temporary_path = lock = None
    while lock is None:
        temporary_path = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        temporary_path.mkdir()
        try:
            lock = _lock(temporary_path)
            os.stat(temporary_path)
        except (
            BlockingIOError,
            FileNotFoundError,
        ):  # another writer removed it before it was locked
            lock = _close_descriptor(lock)
        except OSError:  # a file system without locks: no writer removes it there
            break
    try:
        yield temporary_path
    finally:
        shutil.rmtree(temporary_path, ignore_errors=True)
        _close_descriptor(lock)


def _lock(folder) -> int:
    """Returns a descriptor of `folder` that holds its lock until the descriptor is closed."""
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "there are no locks", os.fspath(folder))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close_descriptor(descriptor) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _try_rename(temporary_path, path) -> bool:
    """Renames the directory `temporary_path` to `path`; returns False if `path` exists."""
    if path.exists():  # `rename` would replace an empty directory
        return False
    try:
        os.rename(temporary_path, path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False  # it appeared just now
        raise
    return True


def _flush(path) -> None:
    """Flushes `path` to the disk."""
    if os.name == "nt":  # it flushes no folder, and no file that is open for reading
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
