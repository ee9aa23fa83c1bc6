"""Each rule of `validate_export` finds what it is for, in small modules made to break it."""

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from keras_attention.export import __main__ as command
from keras_attention.export import (
    _model_card,
    _saved_model_file,
    _serving_configs,
    _supported_ops,
    _warmup_requests,
    validate_export,
)
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._warmup_requests import WARMUP_FILE

VECTOR = tf.TensorSpec([None], tf.float32, name="x")


def save_function(tmp_path, function, spec=VECTOR, name="serving_default", **attributes):
    module = tf.Module()
    for key, value in attributes.items():
        setattr(module, key, value)
    module.function = tf.function(function, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={name: module.function})
    return tmp_path


def findings_of(path):
    """What is wrong with a version beside its digests: those of what is there now are written."""
    write_manifest(path)
    return validate_export(path)


def test_a_plain_function_is_fine(tmp_path):
    assert findings_of(save_function(tmp_path, lambda x: {"y": x + 1.0})) == []


def test_python_inside_is_found(tmp_path):
    def python(x):
        return {"y": tf.ensure_shape(tf.numpy_function(lambda v: v, [x], tf.float32), [None])}

    (problem,) = findings_of(save_function(tmp_path, python))
    assert problem == "op PyFunc calls Python, which a server does not have"


def test_compiled_functions_are_found(tmp_path):
    compiled = tf.function(lambda x: tf.cumsum(x), jit_compile=True)
    problems = findings_of(save_function(tmp_path, lambda x: {"y": compiled(x)}))
    assert problems
    assert all("requires XLA" in problem for problem in problems)


def test_a_function_may_say_that_it_is_not_compiled(tmp_path):
    plain = tf.function(lambda x: tf.cumsum(x), jit_compile=False)
    assert findings_of(save_function(tmp_path, lambda x: {"y": plain(x)})) == []


def test_foreign_ops_are_found(tmp_path, monkeypatch):
    path = save_function(tmp_path, lambda x: {"y": tf.cumsum(x)})
    monkeypatch.setattr(_supported_ops.tf, "raw_ops", type("stock ops without Cumsum", (), {}))
    monkeypatch.setattr(_supported_ops, "TEXT_OPS", frozenset({"AddV2", "Const"}))
    assert any("op Cumsum belongs neither" in problem for problem in findings_of(path))


def test_ragged_outputs_are_found(tmp_path):
    def return_ragged(x):
        return {"y": tf.RaggedTensor.from_row_lengths(x, [tf.size(x)])}

    problems = findings_of(save_function(tmp_path, return_ragged))
    assert problems == [
        "signature serving_default, output y: a ragged or sparse tensor, "
        "which a server cannot return"
    ]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: tf.reduce_sum(x), "expected a known rank of at least 1"),
        (lambda x: tf.reshape(x, [3, -1]), "dimension 0 is 3, expected the unknown batch"),
        (lambda x: tf.cast(x, tf.float64), "dtype float64, expected float32, int32 or string"),
        (lambda x: x > 0, "dtype bool, expected float32, int32 or string"),
    ],
)
def test_outputs_a_server_cannot_split_or_write_are_found(function, problem, tmp_path):
    problems = findings_of(save_function(tmp_path, lambda x: {"y": function(x)}))
    assert problems == [f"signature serving_default, output y: {problem}"]


def test_a_missing_default_signature_is_found(tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0}, name="other")
    assert findings_of(path) == ["there is no signature serving_default"]


def test_missing_files_are_found(tmp_path):
    asset = tmp_path / "words.txt"
    asset.write_text("a\nb\n")
    words = tf.saved_model.Asset(str(asset))
    path = save_function(
        tmp_path / "1", lambda x: {"y": tf.fill(tf.shape(x), words.asset_path)}, words=words
    )
    asset.unlink()
    assert findings_of(path) == []
    (path / "assets" / "words.txt").unlink()
    (path / "variables" / "variables.index").unlink()
    assert findings_of(path) == [
        "variables/variables.index is missing",
        "assets/words.txt is missing",
    ]


@pytest.mark.parametrize("length", [50, 54, 97])  # in the file "2", "6" or "a" stands before it
def test_paths_of_this_machine_are_found(length, tmp_path, monkeypatch):
    folder = "/here" + "e" * (length - len("/here/secret.txt"))
    monkeypatch.setattr(os, "getcwd", lambda: folder)

    def reader(x):
        return {"y": tf.fill(tf.shape(x), f"{folder}/secret.txt")}

    problems = findings_of(save_function(tmp_path, reader))
    assert f"saved_model.pb holds the path {folder} of this machine" in problems


@pytest.mark.parametrize("folder", ["/models", "/encoder"])
def test_names_that_only_look_like_paths_are_fine(folder, tmp_path, monkeypatch):
    path = save_function(tmp_path, lambda x: {"y": tf.fill(tf.shape(x), "module/encoder/layer")})
    _serving_configs.write(path, "name", (1, 8), pad_inputs=False)
    monkeypatch.setattr(os, "getcwd", lambda: folder)
    assert findings_of(path) == []


@pytest.mark.parametrize(
    ("answer", "op"),
    [
        (lambda x, state: x + tf.random.uniform(tf.shape(x)), "RandomUniform"),
        (lambda x, state: x + state.assign_add(1.0), "AssignAddVariableOp"),
        (
            lambda x, state: tf.cond(x[0] > 0, lambda: x + state.assign(2.0), lambda: x),
            "AssignVariableOp",
        ),
    ],
)
def test_answers_that_depend_on_earlier_requests_are_found(answer, op, tmp_path):
    state = tf.Variable(0.0)
    path = save_function(tmp_path, lambda x: {"y": answer(x, state)}, held=state)
    (problem,) = [problem for problem in findings_of(path) if "keeps a state" in problem]
    assert f"signature serving_default keeps a state (op {op})" in problem


def _assign_slice(x, variable):
    variable[:1].assign(x[:1])
    return {"y": x + variable[0]}


def _add_noise(x, generator):
    return {"y": x + generator.normal(tf.shape(x))}


def _count(x, table):
    key = tf.strings.as_string(x)
    before = table.lookup(key)
    with tf.control_dependencies([table.insert(key, before + 1)]):
        return {"y": tf.identity(before)}


@pytest.mark.parametrize(
    ("answer", "state", "op"),
    [
        (_assign_slice, lambda: tf.Variable([0.0, 0.0]), "ResourceStridedSliceAssign"),
        (_add_noise, lambda: tf.random.Generator.from_seed(1), "RngReadAndSkip"),
        (
            _count,
            lambda: tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0),
            "LookupTableInsertV2",
        ),
    ],
)
def test_slices_generators_and_tables_are_states_too(answer, state, op, tmp_path):
    held = state()
    path = save_function(tmp_path, lambda x: answer(x, held), held=held)
    (problem,) = [problem for problem in findings_of(path) if "keeps a state" in problem]
    assert f"signature serving_default keeps a state (op {op})" in problem


def test_a_variable_that_is_read_and_a_seed_of_the_request_are_fine(tmp_path):
    state = tf.Variable(3.0)

    def add_seeded_noise(x):
        seed = tf.cast([x[0], 1.0], tf.int32)
        return {"y": x + state + tf.random.stateless_uniform(tf.shape(x), seed)}

    assert findings_of(save_function(tmp_path, add_seeded_noise, held=state)) == []


def test_damaged_and_missing_models_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not an exported version"):
        validate_export(tmp_path / "nowhere")
    (problem,) = findings_of(tmp_path)
    assert problem.endswith("is not an exported version: it has no saved_model.pb.")
    (tmp_path / "saved_model.pb").symlink_to("nowhere")
    (tmp_path / "assets.extra" / "manifest.json").unlink()
    (tmp_path / "assets.extra" / "manifest.json").symlink_to("nowhere")
    assert len(validate_export(tmp_path)) == 2
    (tmp_path / "saved_model.pb").unlink()
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    (problem,) = findings_of(tmp_path)
    assert "damaged" in problem
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert findings_of(tmp_path) == ["saved_model.pb holds 0 graphs, expected 1"]


def test_newer_ops_and_graphs_are_found(tmp_path, monkeypatch):
    path = save_function(tmp_path, lambda x: {"y": tf.cumsum(x)})
    monkeypatch.setattr(_supported_ops, "NEWER_OPS", frozenset({"Cumsum"}))
    monkeypatch.setattr(_supported_ops, "GRAPH_VERSION", 0)
    newer, version = findings_of(path)
    assert newer == "op Cumsum is newer than TensorFlow 2.20: a server of that version lacks it"
    assert "the graph requires version" in version


def test_the_comparison_of_ops_is_as_new_as_tensorflow():
    newest = tuple(map(int, _supported_ops.COMPARED_VERSION.split(".")))
    installed = tuple(map(int, tf.__version__.split(".")[:2]))
    assert installed <= newest, "compare tf.raw_ops with those of 2.20 and extend NEWER_OPS"


def test_compiled_functions_are_fine_where_the_card_says_so(tmp_path):
    compiled = tf.function(lambda x: tf.cumsum(x), jit_compile=True)
    path = save_function(tmp_path, lambda x: {"y": compiled(x)})
    assert findings_of(path)
    (path / "assets.extra").mkdir(exist_ok=True)
    card = {"schema_version": 1, "xla": {"batch_sizes": [1]}, "parameters": {"bytes": 0}}
    (path / _model_card.JSON_FILE).write_text(json.dumps(card))
    assert findings_of(path) == []
    (path / _model_card.JSON_FILE).write_text("{}")
    assert "model_card.json cannot be read: it is not a model card" in findings_of(path)[0]


@pytest.mark.parametrize("parameters", [[], None, 7, "x"])
def test_a_damaged_card_is_found(parameters, tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    (path / "assets.extra").mkdir(exist_ok=True)
    card = {"schema_version": 1, "parameters": parameters}
    (path / _model_card.JSON_FILE).write_text(json.dumps(card))
    (problem,) = findings_of(path)
    assert problem == (
        "assets.extra/model_card.json cannot be read: it expects `parameters` to be an "
        f"object. Received: {parameters!r}"
    )


def test_variables_stored_twice_are_found(tmp_path):
    numbers = tf.random.stateless_normal([16, 17], [1, 2])
    twins = [tf.Variable(numbers), tf.Variable(numbers)]
    alike = [tf.Variable(tf.zeros([16, 17])), tf.Variable(tf.zeros([16, 17]))]
    path = save_function(tmp_path, lambda x: {"y": x + 1.0}, held=[*twins, *alike])
    (problem,) = findings_of(path)
    assert problem.endswith("are equal: stored twice")
    (path / "assets.extra").mkdir(exist_ok=True)
    card = {"schema_version": 1, "xla": None, "parameters": {"bytes": 4 * 16 * 17 * 4}}
    (path / _model_card.JSON_FILE).write_text(json.dumps(card))
    assert findings_of(path) == []  # the model itself has them twice
    card["parameters"]["bytes"] = 3 * 16 * 17 * 4
    (path / _model_card.JSON_FILE).write_text(json.dumps(card))
    assert f"variables hold {4 * 16 * 17 * 4} bytes, the model's parameters" in str(
        findings_of(path)
    )


def test_damaged_variables_are_found(tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0}, variable=tf.Variable([1.0, 2.0]))
    (path / "variables" / "variables.index").write_bytes(b"junk")
    (problem,) = findings_of(path)
    assert problem.startswith("variables cannot be read")


ONE = {"x": np.ones(1, "f4")}


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (_warmup_requests.WarmupRequest("other", ONE), "there is no signature other"),
        (_warmup_requests.WarmupRequest("serving_default", ONE, ("z",)), "has no output z"),
        (
            _warmup_requests.WarmupRequest("serving_default", ONE, ("y", "y")),
            "output y is named twice",
        ),
        (_warmup_requests.WarmupRequest("serving_default", {}), "input x is missing"),
        (
            _warmup_requests.WarmupRequest("serving_default", ONE | {"z": ONE["x"]}),
            "there is no input z",
        ),
        (
            _warmup_requests.WarmupRequest("serving_default", {"x": np.ones(1, "i4")}),
            "int32, the signature takes",
        ),
        (
            _warmup_requests.WarmupRequest("serving_default", {"x": np.ones((1, 2), "f4")}),
            "has the shape (1, 2)",
        ),
    ],
)
def test_requests_that_would_fail_are_found(request_, problem, tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    _warmup_requests.write_requests(
        path, [_warmup_requests.WarmupRequest("serving_default", ONE, ("y",))], "m"
    )
    assert findings_of(path) == []
    _warmup_requests.write_requests(
        path, [_warmup_requests.WarmupRequest("serving_default", ONE), request_], "m"
    )
    (found,) = findings_of(path)
    assert found.startswith("assets.extra/tf_serving_warmup_requests: request 2, ")
    assert problem in found


def test_requests_need_no_inputs_that_have_a_default(tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    message = saved_model_pb2.SavedModel.FromString(_saved_model_file.read_bytes(path))
    signature = message.meta_graphs[0].signature_def["serving_default"]
    signature.defaults["x"].CopyFrom(tf.make_tensor_proto(ONE["x"]))
    (path / "saved_model.pb").write_bytes(message.SerializeToString())
    _warmup_requests.write_requests(
        path, [_warmup_requests.WarmupRequest("serving_default", {})], "m"
    )
    assert findings_of(path) == []


def test_a_damaged_warm_up_file_is_found(tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    _warmup_requests.write_requests(
        path, [_warmup_requests.WarmupRequest("serving_default", ONE)] * 2, "m"
    )
    content = (path / WARMUP_FILE).read_bytes()
    (path / WARMUP_FILE).write_bytes(content[:-3])
    (found,) = findings_of(path)
    assert "record 2 cannot be read" in found
    with tf.io.TFRecordWriter(str(path / WARMUP_FILE)) as writer:
        for _ in range(1001):
            writer.write(content[12 : 12 + int.from_bytes(content[:8], "little")])
    assert "1001 requests, a server reads 1000" in str(findings_of(path))
    with pytest.raises(ValueError, match="at most 1000 requests.*Received: 1001"):
        _warmup_requests.write_requests(
            path, [_warmup_requests.WarmupRequest("serving_default", ONE)] * 1001, "m"
        )


def test_assets_outside_the_version_are_found(tmp_path):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    message = saved_model_pb2.SavedModel.FromString(_saved_model_file.read_bytes(path))
    message.meta_graphs[0].asset_file_def.add().filename = "../../etc/words.txt"
    (path / "saved_model.pb").write_bytes(message.SerializeToString())
    assert findings_of(path) == ["asset ../../etc/words.txt is outside the version"]


def test_the_command_says_what_is_wrong_and_exits_with_1(tmp_path, capsys):
    path = save_function(tmp_path, lambda x: {"y": x + 1.0})
    write_manifest(path)
    assert command.main(["--validate", str(path)]) == 0
    assert capsys.readouterr().out == f"{path} is fine.\n"
    _warmup_requests.write_requests(
        path,
        [_warmup_requests.WarmupRequest("other", ONE), _warmup_requests.WarmupRequest("more", ONE)],
        "m",
    )
    write_manifest(path)
    assert command.main(["--validate", str(path)]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert command.main(["--validate", str(tmp_path / "nowhere")]) == 1
    assert "not an exported version" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["run", "base", "--validate", str(path)])


def test_the_text_ops_are_those_of_the_installed_wheel():
    # `ops_lib`, which a server is linked with, has every library of the wheel: BUILD at v2.20.0.
    folder = pathlib.Path(tensorflow_text.__file__).parent / "python"
    names = {name for path in folder.rglob("*.so") for name in dir(tf.load_op_library(str(path)))}
    names = {name.replace("TFText_", "TFText>") for name in names if not hasattr(tf.raw_ops, name)}
    registered = {name for name in names if op_def_registry.get(name) is not None}
    assert registered == _supported_ops.TEXT_OPS


@pytest.mark.thorough
def test_what_tensorflow_text_has_beside_our_tokenizers_is_fine(tmp_path):
    joined = tensorflow_text.Reduction.STRING_JOIN

    def split(x):
        words = tensorflow_text.UnicodeScriptTokenizer().tokenize(x)
        pairs = tensorflow_text.ngrams(words, 2, reduction_type=joined)
        octets = tf.strings.as_string(tensorflow_text.ByteSplitter().split(x))
        _, octets = tensorflow_text.RoundRobinTrimmer(3).trim([pairs, octets])
        return {"y": octets.to_tensor()}

    text = tf.TensorSpec([None], tf.string, name="x")
    assert findings_of(save_function(tmp_path, split, text)) == []
