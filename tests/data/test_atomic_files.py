"""Files and directories are whole or absent, whatever happens while they are written."""

import contextlib
import errno
import os
import signal
import subprocess
import sys

import pytest

from keras_attention.data import atomic_files


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    atomic_files.write_bytes(path, b"old")
    atomic_files.write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.keras"
    path.write_bytes(b"old")
    with (
        pytest.raises(OSError, match="disk"),
        atomic_files.replace_file(path, suffix=".keras") as beside,
    ):
        assert beside.name.endswith(".keras") and beside.name.startswith(".")
        beside.write_bytes(b"half")
        raise OSError("no space left on the disk")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.keras"]


def test_a_directory_appears_whole(tmp_path):
    with atomic_files.create_directory(tmp_path / "7") as beside:
        (beside / "deep").mkdir()
        (beside / "deep" / "file").write_bytes(b"x")
        assert not (tmp_path / "7").exists()
    assert (tmp_path / "7" / "deep" / "file").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["7"]


def test_a_directory_is_readable_by_others(tmp_path):
    mask = os.umask(0o022)
    try:
        with atomic_files.create_directory(tmp_path / "7"):
            pass
    finally:
        os.umask(mask)
    assert (tmp_path / "7").stat().st_mode & 0o777 == 0o755


def test_a_failed_directory_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_files.create_directory(tmp_path / "7") as beside:
        (beside / "file").write_bytes(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_failed_directory_leaves_no_empty_parents(tmp_path):
    path = tmp_path / "deep" / "base" / "7"
    with pytest.raises(KeyboardInterrupt), atomic_files.create_directory(path):
        (tmp_path / "deep" / "mine").touch()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path / "deep") == ["mine"]


def test_a_directory_that_exists_or_appears_meanwhile_is_not_touched(tmp_path):
    (tmp_path / "7").mkdir()
    with (
        pytest.raises(FileExistsError, match="7 exists already"),
        atomic_files.create_directory(tmp_path / "7"),
    ):
        pass
    with (
        pytest.raises(FileExistsError, match="8 appeared"),
        atomic_files.create_directory(tmp_path / "8") as beside,
    ):
        (beside / "mine").touch()
        (tmp_path / "8").mkdir()
    assert sorted(os.listdir(tmp_path)) == ["7", "8"]
    assert os.listdir(tmp_path / "8") == []


def test_a_directory_may_take_another_name_where_its_own_appeared(tmp_path, monkeypatch):
    paths = iter([tmp_path / "8", tmp_path / "9", tmp_path / "10"])
    (tmp_path / "8").touch()
    monkeypatch.setattr(
        atomic_files.pathlib.Path, "exists", lambda path: False
    )  # it came a moment later
    with atomic_files.create_directory(tmp_path / "7", lambda: next(paths)) as beside:
        (beside / "mine").touch()
        for name in ("7", "9"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "theirs").touch()
    assert sorted(os.listdir(tmp_path)) == ["10", "7", "8", "9"]
    assert os.listdir(tmp_path / "10") == ["mine"]


WRITER = """
import os, pathlib, runpy, signal, sys
files = runpy.run_path(sys.argv[1])
base = pathlib.Path(sys.argv[2])
with files['replace_file'](base / 'a.json') as a, files['create_directory'](base / '7') as b:
    a.write_bytes(b'half')
    (b / 'saved_model.pb').write_bytes(b'half')
    print(flush=True)
    sys.stdin.read(1)
"""


@contextlib.contextmanager
def run_writer(base):
    """A process that is in the middle of a file and of a directory."""
    command = [sys.executable, "-c", WRITER, atomic_files.__file__, str(base)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == b"\n"
        try:
            yield process
        finally:
            process.kill()


def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path):
    for _ in range(2):
        with run_writer(tmp_path) as process:
            process.kill()
            assert process.wait(60) == -signal.SIGKILL
        left = os.listdir(tmp_path)
        assert len(left) == 2 and all(name.startswith(".") for name in left)
    atomic_files.write_bytes(tmp_path / "other", b"")
    assert os.listdir(tmp_path) == ["other"]


def test_what_another_process_is_writing_stays(tmp_path):
    with run_writer(tmp_path) as process:
        with atomic_files.create_directory(tmp_path / "8"):
            pass
        assert len(os.listdir(tmp_path)) == 3
        process.communicate(b"x", timeout=60)
    assert sorted(os.listdir(tmp_path)) == ["7", "8", "a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"half"


def test_two_parts_of_one_process_leave_each_other_alone(tmp_path):
    with (
        atomic_files.create_directory(tmp_path / "7") as one,
        atomic_files.create_directory(tmp_path / "8") as two,
    ):
        atomic_files.remove_abandoned_parts(tmp_path)
        assert one.is_dir() and two.is_dir()


def test_nothing_else_is_removed(tmp_path):
    for name in (".9.x.part", ".git", "7.part", "." + "a" * 32 + ".part"):
        (tmp_path / name).mkdir()
    (tmp_path / f".1.{'a' * 32}.part").touch()  # a file
    (tmp_path / f".2.{'a' * 32}.part").symlink_to(tmp_path / ".git")
    before = sorted(os.listdir(tmp_path))
    atomic_files.remove_abandoned_parts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_part_that_is_taken_for_dead_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, calls = atomic_files._lock, []

    def hasty(folder):
        calls.append(folder)
        if len(calls) == 1:  # another writer looks at it this moment
            held = lock(folder)
            try:
                return lock(folder)
            finally:
                os.close(held)
        held = lock(folder)
        if len(calls) == 2:  # another writer has just removed it
            os.rmdir(folder)
        return held

    monkeypatch.setattr(atomic_files, "_lock", hasty)
    with atomic_files.create_directory(tmp_path / "7") as beside:
        assert beside == calls[2]
        (beside / "file").touch()
    atomic_files.remove_abandoned_parts(tmp_path)
    assert os.listdir(tmp_path) == ["7"]


def test_where_there_are_no_locks_nothing_is_taken_for_dead(tmp_path, monkeypatch):
    def fail_to_lock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic_files.fcntl, "flock", fail_to_lock)
    with (
        atomic_files.create_directory(tmp_path / "7") as one,
        atomic_files.lock_directory(tmp_path),
        atomic_files.lock_directory(tmp_path),
    ):
        atomic_files.write_bytes(tmp_path / "a.json", b"x")
        assert one.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["7", "a.json"]


def test_a_directory_is_locked_once_by_any_of_its_names(tmp_path):
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    for first, second in ((folder, link), (link, folder)):
        with (
            atomic_files.lock_directory(first),
            pytest.raises(BlockingIOError),
            atomic_files.lock_directory(second),
        ):
            raise AssertionError("locked twice")
    assert os.listdir(folder) == []


def test_files_are_replaced_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "fcntl", None)
    for content in (b"old", b"new"):
        atomic_files.write_bytes(tmp_path / "a.json", content)
    with atomic_files.lock_directory(tmp_path), atomic_files.lock_directory(tmp_path):
        assert (tmp_path / "a.json").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]
