"""Paths of any machine, and files that are no assets, are found in small modules."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_attention.export import _external_paths, _saved_model_file, validate_export
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._external_paths import is_machine_path
from keras_attention.export._warmup_requests import WarmupRequest, write_requests

TEXT = tf.TensorSpec([None], tf.string, name="x")


def problems(tmp_path, function, **attributes):
    """What is found in a version that answers texts with `function` of them."""
    module = tf.Module()
    for key, value in attributes.items():
        setattr(module, key, value)
    module.function = tf.function(lambda x: {"y": function(x)}, input_signature=[TEXT])
    signatures = {"serving_default": module.function}
    tf.saved_model.save(module, str(tmp_path / "1"), signatures)
    write_manifest(tmp_path / "1")
    return validate_export(tmp_path / "1")


def test_a_path_of_another_machine_is_found(tmp_path):
    def return_path(x):
        return tf.fill(tf.shape(x), "/opt/alice/models/vocab.txt")

    (problem,) = problems(tmp_path, return_path)
    assert problem == "saved_model.pb holds the absolute path /opt/alice/models/vocab.txt"


def test_a_file_that_is_no_asset_is_found(tmp_path):
    def read(x):
        return tf.fill(tf.shape(x), tf.io.read_file("/srv/secret.bin"))

    path, op = problems(tmp_path, read)
    assert path == "saved_model.pb holds the absolute path /srv/secret.bin"
    assert op == "op ReadFile opens a file that is not an asset of the version (/srv/secret.bin)"


@pytest.mark.parametrize(
    "read",
    [
        lambda x: tf.map_fn(tf.io.read_file, x),
        lambda x: tf.fill(tf.shape(x), tf.io.read_file("vocab.txt")),
        lambda x: tf.cond(
            tf.size(x) > 1, lambda: tf.fill(tf.shape(x), tf.io.read_file(x[0])), lambda: x
        ),
        lambda x: tf.fill(tf.shape(x), tf.io.matching_files([x[0] + "*"])[0]),
    ],
)
def test_a_file_that_a_request_names_is_found(read, tmp_path):
    (problem,) = problems(tmp_path, read)
    assert "opens a file that is not an asset of the version" in problem


def test_assets_are_read_and_their_own_places_are_fine(tmp_path):
    words, other = tmp_path / "words.txt", tmp_path / "other.txt"
    words.write_text("a\nb\n")
    other.write_text("c")
    whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    initializer = tf.lookup.TextFileInitializer(str(words), tf.string, whole, tf.int64, line)
    table, asset = tf.lookup.StaticHashTable(initializer, -1), tf.saved_model.Asset(str(other))

    def read(x):
        known = table.lookup(x) >= 0
        content = tf.cond(
            tf.size(x) > 1, lambda: tf.io.read_file(asset.asset_path), lambda: tf.constant("")
        )
        return tf.where(known, x, content)

    assert problems(tmp_path, read, table=table, asset=asset) == []


def test_an_asset_with_a_path_of_windows_lies_outside(tmp_path):
    assert problems(tmp_path, tf.identity) == []
    path = tmp_path / "1"
    message = saved_model_pb2.SavedModel.FromString(_saved_model_file.read_bytes(path))
    message.meta_graphs[0].asset_file_def.add().filename = r"C:\models\words.txt"
    (path / "saved_model.pb").write_bytes(message.SerializeToString())
    write_manifest(path)
    assert validate_export(path) == [r"asset C:\models\words.txt is outside the version"]


@pytest.mark.parametrize(
    "text",
    [
        *("/opt/alice", "/opt/alice/", "/srv/secret.bin", "/a b/c-d/e_f/words.model"),
        *("file:///var/x", "/media/álice/vocab", r"C:\Users\alice\words.txt", "D:/words/de.txt"),
        r"\\server\share\words.txt",
    ],
)
def test_whole_paths_are_paths(text):
    assert is_machine_path(text)


@pytest.mark.parametrize(
    "text",
    [
        *("/", "//", "/m", "/m/02mk9", "/ /", "a/b", "and/or.not", "/words.txt", "</s>", "1/2/3.x"),
        *(r"/\w+/[a-z].x", r"\\s\w+", r"x:\d\d", "/device:CPU:0", "/dd/mm/yyyy", "a:", ".part"),
        *("see /opt/alice/words.txt for more", "https://example.org/a/b.txt", "/opt/a\n/b.txt"),
        "module/encoder/layer",
    ],
)
def test_other_strings_are_not(text):
    assert not is_machine_path(text)


def test_a_vocabulary_of_slashes_is_fine(tmp_path):
    keys = tf.constant(["/", "/m/02mk9", "/usr/bin/env", "C:/a/b.txt"])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.range(4))
    table = tf.lookup.StaticHashTable(initializer, -1)
    found = problems(tmp_path, lambda x: tf.gather(keys, table.lookup(x)), table=table)
    assert found == []


def test_a_vocabulary_may_hold_folders_of_this_machine(tmp_path, monkeypatch):
    folders = {"/usr", "/app", "/srv/models"}
    monkeypatch.setattr(_external_paths, "_list_machine_folders", lambda: folders)
    words = ["/usr/bin", "/app/a", "a /srv/models/b"]

    def read(x):
        return tf.gather(tf.constant(words), tf.strings.length(x))

    assert problems(tmp_path, read) == []
    texts = {"x": np.array([" ".join(words)], object)}
    write_requests(tmp_path / "1", [WarmupRequest("serving_default", texts)], "words")
    write_manifest(tmp_path / "1")
    assert validate_export(tmp_path / "1") == []


def test_a_folder_of_this_machine_in_a_longer_text_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(_external_paths, "_list_machine_folders", lambda: {"/app"})
    found = problems(tmp_path, lambda x: tf.strings.join([x, " read from /app/words"]))
    assert found == ["saved_model.pb holds the path /app of this machine"]
