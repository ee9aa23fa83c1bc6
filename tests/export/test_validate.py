"""Each rule of `validate_export` finds what it is for, in small modules made to break it."""

import os

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from keras_attention.export import validate, validate_export

VECTOR = tf.TensorSpec([None], tf.float32, name="x")


def saved(tmp_path, function, spec=VECTOR, name="serving_default", **attributes):
    module = tf.Module()
    for key, value in attributes.items():
        setattr(module, key, value)
    module.function = tf.function(function, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={name: module.function})
    return tmp_path


def test_a_plain_function_is_fine(tmp_path):
    assert validate_export(saved(tmp_path, lambda x: {"y": x + 1.0})) == []


def test_python_inside_is_found(tmp_path):
    def python(x):
        return {"y": tf.ensure_shape(tf.numpy_function(lambda v: v, [x], tf.float32), [None])}

    (finding,) = validate_export(saved(tmp_path, python))
    assert finding == "op PyFunc calls Python, which a server does not have"


def test_compiled_functions_are_found(tmp_path):
    compiled = tf.function(lambda x: tf.cumsum(x), jit_compile=True)
    findings = validate_export(saved(tmp_path, lambda x: {"y": compiled(x)}))
    assert findings
    assert all("asks for XLA" in finding for finding in findings)


def test_a_function_may_say_that_it_is_not_compiled(tmp_path):
    plain = tf.function(lambda x: tf.cumsum(x), jit_compile=False)
    assert validate_export(saved(tmp_path, lambda x: {"y": plain(x)})) == []


def test_foreign_ops_are_found(tmp_path, monkeypatch):
    path = saved(tmp_path, lambda x: {"y": tf.cumsum(x)})
    monkeypatch.setattr(validate.tf, "raw_ops", type("stock ops without Cumsum", (), {}))
    monkeypatch.setattr(validate, "TEXT_OPS", frozenset({"AddV2", "Const"}))
    assert any("op Cumsum is neither" in finding for finding in validate_export(path))


def test_ragged_outputs_are_found(tmp_path):
    def ragged(x):
        return {"y": tf.RaggedTensor.from_row_lengths(x, [tf.size(x)])}

    findings = validate_export(saved(tmp_path, ragged))
    assert findings == [
        "signature serving_default, output y: a ragged or sparse tensor cannot be fetched"
    ]


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        (lambda x: tf.reduce_sum(x), "expected a known rank of at least 1"),
        (lambda x: tf.reshape(x, [3, -1]), "dimension 0 is 3, expected the unknown batch"),
        (lambda x: tf.cast(x, tf.float64), "dtype float64, expected float32, int32 or string"),
        (lambda x: x > 0, "dtype bool, expected float32, int32 or string"),
    ],
)
def test_outputs_a_server_cannot_split_or_write_are_found(function, finding, tmp_path):
    findings = validate_export(saved(tmp_path, lambda x: {"y": function(x)}))
    assert findings == [f"signature serving_default, output y: {finding}"]


def test_a_missing_default_signature_is_found(tmp_path):
    path = saved(tmp_path, lambda x: {"y": x + 1.0}, name="other")
    assert validate_export(path) == ["there is no signature serving_default"]


def test_missing_files_are_found(tmp_path):
    asset = tmp_path / "words.txt"
    asset.write_text("a\nb\n")
    words = tf.saved_model.Asset(str(asset))
    path = saved(
        tmp_path / "1", lambda x: {"y": tf.fill(tf.shape(x), words.asset_path)}, words=words
    )
    asset.unlink()
    assert validate_export(path) == []
    (path / "assets" / "words.txt").unlink()
    (path / "variables" / "variables.index").unlink()
    assert validate_export(path) == [
        "variables/variables.index is missing",
        "assets/words.txt is missing",
    ]


def test_paths_of_this_machine_are_found(tmp_path):
    def reader(x):
        return {"y": tf.fill(tf.shape(x), f"{os.getcwd()}/secret.txt")}

    findings = validate_export(saved(tmp_path, reader))
    assert f"saved_model.pb holds the path {os.getcwd()} of this machine" in findings


def test_damaged_and_missing_models_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="not an exported version: it has no saved_model"):
        validate_export(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    (finding,) = validate_export(tmp_path)
    assert "damaged" in finding
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert validate_export(tmp_path) == ["saved_model.pb holds 0 graphs, expected 1"]


def test_the_listed_text_ops_exist():
    missing = [op for op in validate.TEXT_OPS if op_def_registry.get(op) is None]
    assert missing == []
    assert not [op for op in validate.TEXT_OPS if hasattr(tf.raw_ops, op)]
