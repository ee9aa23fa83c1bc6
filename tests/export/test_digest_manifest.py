"""Damage of any file of a version is found by its manifest, before anything is parsed."""

import json
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.export import __main__ as command
from keras_attention.export import (
    _digest_manifest,
    _saved_model_file,
    export_model,
    validate_export,
)
from keras_attention.export._digest_manifest import (
    MANIFEST_FILE,
    find_manifest_problems,
    write_manifest,
)
from keras_attention.export._warmup_requests import WARMUP_FILE

DATA = "variables/variables.data-00000-of-00001"
CARD = "assets.extra/model_card.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small version, as it was exported."""
    inputs = keras.Input((None, 3), name="frames")
    outputs = keras.layers.GlobalMaxPooling1D()(keras.layers.Dense(5)(inputs))
    model = keras.Model({"frames": inputs}, {"pooled": outputs})
    return export_model(model, tmp_path_factory.mktemp("base"))


@pytest.fixture
def path(whole, tmp_path):
    """A copy of it to be damaged."""
    return shutil.copytree(whole, tmp_path / "1")


def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_an_export_has_a_manifest_of_all_its_files(whole):
    listed = json.loads((whole / MANIFEST_FILE).read_text())["files"]
    names = {file.relative_to(whole).as_posix() for file in files_of(whole)}
    assert set(listed) == names - {MANIFEST_FILE.as_posix()}
    assert list(listed) == sorted(listed)
    assert {DATA, CARD, "saved_model.pb", "fingerprint.pb", str(WARMUP_FILE)} <= set(listed)
    assert find_manifest_problems(whole) == validate_export(whole) == []


def _flip(generator, file, path):
    content = bytearray(file.read_bytes())
    content[generator.integers(len(content))] ^= 1 << generator.integers(8)
    file.write_bytes(content)


def _truncate(generator, file, path):
    os.truncate(file, generator.integers(file.stat().st_size))


def _delete(generator, file, path):
    file.unlink()


def _append(generator, file, path):
    with open(file, "ab") as opened:
        opened.write(generator.bytes(generator.integers(1, 50)))


def _add(generator, file, path):
    (file.parent / f"added{generator.integers(1000)}").write_bytes(generator.bytes(9))


def _swap(generator, file, path):
    files = [other for other in files_of(path) if other != file]
    other = files[generator.integers(len(files))]
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


DAMAGES = (_flip, _truncate, _delete, _append, _add, _swap)


def test_none_of_two_hundred_random_damages_is_silent(whole, tmp_path, monkeypatch):
    def fail_to_parse(path):
        raise ValueError("parsed")

    monkeypatch.setattr(_saved_model_file, "read_meta_graph", fail_to_parse)
    generator = np.random.default_rng(20)
    damaged = set()
    for number in range(200):
        path = shutil.copytree(whole, tmp_path / str(number))
        file = files_of(path)[generator.integers(len(files_of(path)))]
        damage = DAMAGES[number % len(DAMAGES)]
        damage(generator, file, path)
        problems = validate_export(path)
        assert problems, (number, damage.__name__, file.name)
        assert all(isinstance(line, str) and line.isprintable() for line in problems)
        # Without a manifest the rest is looked at; with one, nothing that is damaged is parsed.
        without = not (path / MANIFEST_FILE).exists()
        assert find_manifest_problems(path) + ["parsed"] * without == problems
        damaged.add(file.name)
    assert len(damaged) == len(files_of(whole))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (DATA, lambda old: old[: len(old) // 2], "is damaged: it has 40 bytes, the manifest lists"),
        (DATA, lambda old: old[:-1], "is damaged: it has"),
        (str(WARMUP_FILE), lambda old: b"", "is damaged: it has 0 bytes, the manifest lists"),
        (CARD, lambda old: old.replace(b"frames", b"Frames"), "its SHA-256 digest differs"),
        ("fingerprint.pb", lambda old: old[::-1], "its SHA-256 digest differs"),
        ("saved_model.pb", lambda old: old[:-1] + bytes([old[-1] ^ 1]), "SHA-256 digest differs"),
    ],
)
def test_a_damaged_file_is_named(name, content, problem, path):
    (path / name).write_bytes(content((path / name).read_bytes()))
    (found,) = validate_export(path)
    assert found.startswith(f"{name} ")
    assert problem.replace("40", str((path / name).stat().st_size)) in found


@pytest.mark.parametrize("name", [DATA, CARD, str(WARMUP_FILE), "saved_model.pb"])
def test_a_missing_file_is_named(name, path):
    (path / name).unlink()
    assert validate_export(path) == [f"{name} is missing"]


def test_a_missing_manifest_is_a_finding_and_so_is_what_else_is_wrong(path):
    (path / MANIFEST_FILE).unlink()
    (problem,) = validate_export(path)
    assert problem.startswith("assets.extra/manifest.json is missing.")
    assert "--write-manifest" in problem
    (path / "variables" / "variables.index").unlink()
    assert validate_export(path) == [problem, "variables/variables.index is missing"]


def test_damage_without_a_manifest_raises_nothing(whole, tmp_path):
    generator = np.random.default_rng(21)
    for number in range(24):
        path = shutil.copytree(whole, tmp_path / str(number))
        (path / MANIFEST_FILE).unlink()
        files = files_of(path)
        DAMAGES[number % len(DAMAGES)](generator, files[generator.integers(len(files))], path)
        if (path / "saved_model.pb").exists():
            assert validate_export(path)[0].startswith(f"{MANIFEST_FILE} is missing")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b'{"files": []}', b"\xff", b"[" * 100_000, b'{"files": {}}'],
)
def test_a_manifest_that_is_none_is_damaged(content, path):
    (path / MANIFEST_FILE).write_bytes(content)
    (problem,) = validate_export(path)
    assert problem == f"{MANIFEST_FILE} is damaged: its content does not match its own digest"


def test_every_part_of_the_manifest_counts(path):
    content = (path / MANIFEST_FILE).read_bytes()
    for place in range(0, len(content), 11):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (path / MANIFEST_FILE).write_bytes(changed)
        assert find_manifest_problems(path), place


def test_links_pipes_and_folders_in_the_place_of_files_are_found(path, tmp_path):
    for name in (DATA, CARD):
        (path / name).unlink()
    os.mkfifo(path / DATA)  # to read it would wait for ever
    (path / CARD).mkdir()
    os.symlink(tmp_path, path / "linked")
    assert find_manifest_problems(path) == [
        "linked is not in the manifest",
        f"{CARD} is not a file",
        f"{DATA} is not a file",
    ]


def test_a_name_that_is_no_text_is_printable(path):
    (path / os.fsdecode(b"a\xff\n")).touch()
    assert find_manifest_problems(path) == [r"a\udcff\n is not in the manifest"]


def test_a_manifest_that_is_too_large_is_not_read(path, monkeypatch):
    monkeypatch.setattr(_digest_manifest, "MAX_MANIFEST_BYTES", 100)
    assert find_manifest_problems(path) == [
        f"{MANIFEST_FILE} is damaged: it has more than 100 bytes"
    ]


def test_a_file_that_cannot_be_read_is_a_finding(path, monkeypatch):
    def refuse(file):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_digest_manifest, "_compute_digest", refuse)
    problems = find_manifest_problems(path)
    assert len(problems) == len(files_of(path)) - 1
    assert {line.partition(" is ")[2] for line in problems} == {"not readable: Permission denied"}


def test_versions_of_other_code_get_a_manifest_on_request(tmp_path, capsys):
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.float32, name="x")
    module.function = tf.function(lambda x: {"y": x + 1.0}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.function})
    assert len(validate_export(tmp_path)) == 1
    assert command.main(["--write-manifest", str(tmp_path)]) == 0
    assert validate_export(tmp_path) == []
    (tmp_path / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }")
    assert validate_export(tmp_path) == ["batching_params.pbtxt is not in the manifest"]
    write_manifest(tmp_path)  # files that were changed on purpose
    assert validate_export(tmp_path) == []
    assert command.main(["--write-manifest", str(tmp_path / "assets")]) == 1
    assert "not an exported version" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["run", "base", "--write-manifest", str(tmp_path)])


def test_the_command_prints_a_line_for_each_finding_and_exits_with_1(path, capsys):
    (path / CARD).unlink()
    os.truncate(path / DATA, 1)
    (path / "more").touch()
    assert command.main(["--validate", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["more", CARD, DATA]
