"""XLA's programs are kept in a folder, and a second run with the same sizes reads them."""

import csv
import os
import subprocess
import sys

import pytest

from examples import xla_cache
from examples.xla_cache import VARIABLE, enable_xla_cache


def test_flags_are_added_to_the_users(tmp_path):
    environment = {"TF_XLA_FLAGS": "--tf_xla_clustering_debug"}
    folder = enable_xla_cache(tmp_path / "new", environment)
    assert folder.is_dir() and folder.parent == tmp_path / "new"
    first, *rest = environment["TF_XLA_FLAGS"].split()
    assert first == "--tf_xla_clustering_debug"
    assert f"--tf_xla_persistent_cache_directory={folder}" in rest


@pytest.mark.parametrize("name", ["XLA_FLAGS", "TF_XLA_FLAGS", "TF_NUM_INTRAOP_THREADS"])
def test_programs_of_other_flags_have_another_folder(tmp_path, name):
    plain = enable_xla_cache(tmp_path, {})
    assert plain == enable_xla_cache(tmp_path, {}) != enable_xla_cache(tmp_path, {name: "1"})


def test_programs_of_another_processor_have_another_folder(tmp_path, monkeypatch):
    plain = enable_xla_cache(tmp_path, {})
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags : fpu sse\n")
    monkeypatch.setattr(xla_cache, "CPU_INFO", info)
    other = enable_xla_cache(tmp_path, {})
    info.write_text("processor : 1\nflags : fpu sse\n")
    assert plain != other == enable_xla_cache(tmp_path, {})
    monkeypatch.setattr(xla_cache, "CPU_INFO", tmp_path / "absent")
    assert enable_xla_cache(tmp_path, {}).is_dir()


def test_a_folder_that_cannot_be_made_is_said_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    environment = {**os.environ, VARIABLE: str(tmp_path / "file" / "cache")}
    command = [sys.executable, "-m", "examples", "list"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "Part of the path is a file; name a folder." in done.stderr


@pytest.mark.thorough
def test_a_second_training_reads_the_programs_and_learns_the_same(tmp_path):
    cache, losses, written = tmp_path / "cache", [], []
    environment = {**os.environ, VARIABLE: str(cache), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    for run in ("first", "second"):
        words = (
            f"train rnnsearch --units 8 --embedding-dim 5 --epochs 2 --num-buckets 1 --run {run}"
        )
        command = [sys.executable, "-m", "examples", *words.split(), "--max-examples", "150"]
        environment["PYTHONPATH"] = os.getcwd()
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        programs = {path: path.stat().st_mtime_ns for path in cache.rglob("*.pb")}
        written.append(programs)
        with (tmp_path / run / "history.csv").open() as file:
            losses.append([row["loss"] for row in csv.DictReader(file)])
    assert written[0] and written[1] == written[0]
    assert len(losses[0]) == 2 and losses[0] == losses[1]
