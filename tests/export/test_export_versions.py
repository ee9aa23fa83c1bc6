"""Versions of an export: their numbers, and that a failure leaves none behind."""

import errno
import functools
import os
import signal
import subprocess
import sys

import pytest
from search_fields import export

from keras_attention.export import (
    _version_writer,
    versions,
)


def test_versions_count_on_from_the_highest(pieces, tmp_path, quick):
    assert export(pieces, tmp_path / "deep" / "base") == tmp_path / "deep" / "base" / "1"
    (tmp_path / "007").mkdir()
    (tmp_path / "latest").mkdir()
    (tmp_path / ".9.x.part").mkdir()
    assert export(pieces, tmp_path) == tmp_path / "8"
    assert export(pieces, tmp_path, version=5) == tmp_path / "5"
    assert export(pieces, tmp_path).name == "9"
    assert versions.find_versions(tmp_path).keys() == {5, 7, 8, 9}


def test_an_existing_version_is_refused_and_kept(pieces, tmp_path, quick):
    path = export(pieces, tmp_path, version=3)
    (tmp_path / "007").mkdir()
    for version in (3, 7):
        with pytest.raises(FileExistsError, match="exists already.*for the next one, 8"):
            export(pieces, tmp_path, version=version)
    assert (path / "saved_model.pb").read_bytes() == b"graph"
    assert len(quick) == 1


def test_a_base_that_is_a_file_is_refused(pieces, tmp_path, quick):
    (tmp_path / "base").touch()
    with pytest.raises(FileExistsError, match="base is a file"):
        export(pieces, tmp_path / "base")


def test_names_that_no_server_reads_as_a_version_do_not_count(pieces, tmp_path, quick):
    for name in ("20261005123456789012", f"{2**63}", f"-{2**63 + 1}"):
        (tmp_path / name).mkdir()
    assert versions.find_versions(tmp_path) == {}
    assert export(pieces, tmp_path).name == "1"


def test_after_the_largest_version_there_is_no_next_one(pieces, tmp_path, quick):
    assert export(pieces, tmp_path, version=2**63 - 1).name == "9223372036854775807"
    with pytest.raises(ValueError, match="none comes after the largest.*Received: none, beside"):
        export(pieces, tmp_path)
    with pytest.raises(FileExistsError, match=r"exists already. Choose another version\.$"):
        export(pieces, tmp_path, version=2**63 - 1)
    with pytest.raises(ValueError, match=f"at most {2**63 - 1}. Received: {2**63}"):
        export(pieces, tmp_path, version=2**63)
    assert export(pieces, tmp_path, version=5).name == "5"


def test_of_two_exports_at_once_the_later_takes_the_next_number(
    pieces, tmp_path, quick, monkeypatch
):
    def another_export(path, requests):
        monkeypatch.setattr(
            _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
        )
        export(pieces, tmp_path)

    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", another_export)
    assert export(pieces, tmp_path) == tmp_path / "2"
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]
    assert (tmp_path / "2" / "saved_model.pb").read_bytes() == b"graph"
    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", another_export)
    with pytest.raises(FileExistsError, match="3 appeared while it was being written"):
        export(pieces, tmp_path, version=3)  # who asks for a number gets that one or none


FULL = OSError(errno.ENOSPC, "no space left on the disk")


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("tf.saved_model", "save"),
        ("_model_card", "write"),
        ("_serving_configs", "write"),
        ("_warmup_requests", "write_requests"),
        ("_warmup_requests", "replay_requests"),
        ("atomic_files", "_flush"),
        ("atomic_files.os", "rename"),
    ],
)
def test_a_full_disk_at_any_step_leaves_nothing(
    module, function, pieces, tmp_path, quick, monkeypatch
):
    export(pieces, tmp_path)

    def full_disk(*arguments):
        if function == "save":
            os.mkdir(os.path.join(arguments[1], "variables"))
        raise FULL

    owner = functools.reduce(getattr, module.split("."), _version_writer)
    monkeypatch.setattr(owner, function, full_disk)
    with pytest.raises(OSError, match="no space left on the disk"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == ["1"]
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"graph"


def test_what_a_server_cannot_run_is_refused(pieces, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(_version_writer, "validate_export", lambda path: ["op PyFunc calls Python"])
    with pytest.raises(
        ValueError, match="unmodified TensorFlow Serving can run.*Received: op PyFunc calls Python"
    ):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_first_export_that_fails_leaves_no_base_directory(pieces, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(_version_writer, "validate_export", lambda path: ["op PyFunc calls Python"])
    with pytest.raises(ValueError, match="PyFunc"):
        export(pieces, tmp_path / "deep" / "base")
    assert os.listdir(tmp_path) == []
    (tmp_path / "base").mkdir()
    with pytest.raises(ValueError, match="PyFunc"):
        export(pieces, tmp_path / "base")
    assert os.listdir(tmp_path) == ["base"]  # it was there before


def test_a_version_whose_warm_up_fails_never_appears(pieces, tmp_path, quick, monkeypatch):
    def fail(path, requests):
        assert requests and not (tmp_path / "1").exists()
        raise ValueError("output score: not every number is finite")

    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", fail)
    with pytest.raises(ValueError, match="warm-up requests.*output score: not every number"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from toy_translator import toy_translator
from keras_attention.export import SearchOptions, _warmup_requests, export_translator, tokenizers
replay = _warmup_requests.replay_requests
def kill(path, requests):
    replay(path, requests[:1])
    os.kill(os.getpid(), signal.SIGKILL)
_warmup_requests.replay_requests = kill
source, target = tokenizers.WordTokenizer(["a"]), tokenizers.WordTokenizer(["b"])
search = SearchOptions(max_length=3)
export_translator(toy_translator(5, 5), sys.argv[1], source=source, target=target, search=search)
"""


@pytest.mark.slow
def test_a_killed_export_leaves_no_version(pieces, tmp_path, quick):
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
    command = [sys.executable, "-c", KILLED, str(tmp_path), *paths]
    killed = subprocess.run(command, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".1.") and left.endswith(".part")  # no server looks at it
    assert os.path.exists(tmp_path / left / "assets.extra" / "model_card.md")
    assert versions.find_versions(tmp_path) == {}
    assert export(pieces, tmp_path).name == "1"
    assert os.listdir(tmp_path) == ["1"]
