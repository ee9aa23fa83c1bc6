"""Files and directories are whole or absent, whatever happens while they are written."""

import os
import signal
import subprocess
import sys

import pytest

from keras_attention.export import files


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    files.write_bytes(path, b"old")
    files.write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.keras"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="disk"), files.replaced(path, suffix=".keras") as beside:
        assert beside.name.endswith(".keras") and beside.name.startswith(".")
        beside.write_bytes(b"half")
        raise OSError("no space left on the disk")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.keras"]


def test_a_directory_appears_whole(tmp_path):
    with files.new_directory(tmp_path / "7") as beside:
        (beside / "deep").mkdir()
        (beside / "deep" / "file").write_bytes(b"x")
        assert not (tmp_path / "7").exists()
    assert (tmp_path / "7" / "deep" / "file").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["7"]


def test_a_directory_is_readable_by_others(tmp_path):
    mask = os.umask(0o022)
    try:
        with files.new_directory(tmp_path / "7"):
            pass
    finally:
        os.umask(mask)
    assert (tmp_path / "7").stat().st_mode & 0o777 == 0o755


def test_a_failed_directory_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.new_directory(tmp_path / "7") as beside:
        (beside / "file").write_bytes(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_directory_that_exists_or_appears_meanwhile_is_not_touched(tmp_path):
    (tmp_path / "7").mkdir()
    with (
        pytest.raises(FileExistsError, match="7 exists already"),
        files.new_directory(tmp_path / "7"),
    ):
        pass
    with (
        pytest.raises(FileExistsError, match="8 appeared"),
        files.new_directory(tmp_path / "8") as beside,
    ):
        (beside / "mine").touch()
        (tmp_path / "8").mkdir()
    assert sorted(os.listdir(tmp_path)) == ["7", "8"]
    assert os.listdir(tmp_path / "8") == []


def test_a_directory_may_take_another_name_where_its_own_appeared(tmp_path, monkeypatch):
    paths = iter([tmp_path / "8", tmp_path / "9", tmp_path / "10"])
    (tmp_path / "8").touch()
    monkeypatch.setattr(files.pathlib.Path, "exists", lambda path: False)  # it came a moment later
    with files.new_directory(tmp_path / "7", lambda: next(paths)) as beside:
        (beside / "mine").touch()
        for name in ("7", "9"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "theirs").touch()
    assert sorted(os.listdir(tmp_path)) == ["10", "7", "8", "9"]
    assert os.listdir(tmp_path / "10") == ["mine"]


def test_a_killed_process_leaves_nothing_visible(tmp_path):
    program = (
        "import os, pathlib, runpy, signal, sys\n"
        "files = runpy.run_path(sys.argv[1])\n"
        "base = pathlib.Path(sys.argv[2])\n"
        "with files['replaced'](base / 'a.json') as a, files['new_directory'](base / '7') as b:\n"
        "    a.write_bytes(b'half')\n"
        "    (b / 'saved_model.pb').write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", program, files.__file__, str(tmp_path)]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
    visible = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
    assert visible == []
