"""The warm-up file: requests come back, damage is found, and requests are answered."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import prediction_log_pb2

from keras_attention.export import _warmup_requests, tokenizers
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export.serving import ServingError

INPUTS = {
    "text": np.array([b"a", b"", "\u00e4\x00".encode()], object),
    "seed": np.array([-1, 0, 2**31 - 1], np.int32),
    "frames": np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5) / 7,
    "nothing": np.zeros((0, 3), np.float32),
}


def write_records(directory, *records):
    (directory / _warmup_requests.WARMUP_FILE).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(directory / _warmup_requests.WARMUP_FILE)) as writer:
        for record in records:
            writer.write(record)


def prediction_log(dtype=types_pb2.DT_FLOAT):
    """A `PredictionLog` of the server's classes with one input of three numbers."""
    log = prediction_log_pb2.PredictionLog()
    tensor = tf.make_tensor_proto(np.ones(3, "f4"))
    tensor.dtype = dtype
    log.predict_log.request.inputs["x"].CopyFrom(tensor)
    return log


def test_other_fields_are_passed_over_and_the_default_signature_is_named(tmp_path):
    log = prediction_log()
    log.log_metadata.sampling_config.sampling_rate = 0.5
    log.predict_log.request.model_spec.version.value = 2**40
    log.predict_log.request.client_id = b"someone"
    write_records(tmp_path, log.SerializeToString())
    (request,) = _warmup_requests.read_requests(tmp_path)
    assert (request.signature, request.outputs) == ("serving_default", ())
    assert request.inputs["x"].tolist() == [1.0] * 3


@pytest.mark.parametrize("message", [b"\xff", b""])
def test_a_record_that_is_no_request_is_named(message, tmp_path):
    write_records(tmp_path, prediction_log().SerializeToString(), message)
    with pytest.raises(ValueError, match="record 2 cannot be read"):
        _warmup_requests.read_requests(tmp_path)


@pytest.mark.thorough
@hypothesis.settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_damaged_messages_are_refused_or_read(tmp_path, junk, place, byte):
    content = bytearray(prediction_log().SerializeToString())
    content[place % len(content)] = byte
    for message in (junk, bytes(content), bytes(content[:place])):
        write_records(tmp_path, message)
        try:
            (request,) = _warmup_requests.read_requests(tmp_path)
        except ValueError as error:
            assert "record 1 cannot be read" in str(error)
            continue
        assert all(isinstance(array, np.ndarray) for array in request.inputs.values())


@pytest.mark.parametrize("dtype", [types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT, 99, 0])
def test_inputs_of_a_dtype_without_values_are_refused(dtype, tmp_path):
    write_records(
        tmp_path, prediction_log().SerializeToString(), prediction_log(dtype).SerializeToString()
    )
    with pytest.raises(ValueError, match="record 2 cannot be read.*not a tensor that has values"):
        _warmup_requests.read_requests(tmp_path)


def test_requests_come_back(tmp_path):
    assert _warmup_requests.read_requests(tmp_path) == []
    requests = [
        _warmup_requests.WarmupRequest("a", INPUTS),
        _warmup_requests.WarmupRequest("b", {"x": INPUTS["seed"]}, ("y",)),
    ]
    _warmup_requests.write_requests(tmp_path, requests, "model")
    assert (tmp_path / "assets.extra" / "tf_serving_warmup_requests").is_file()
    first, second = _warmup_requests.read_requests(tmp_path)
    assert (first.signature, first.outputs) == ("a", ())
    assert all(np.array_equal(first.inputs[name], value) for name, value in INPUTS.items())
    assert (second.signature, second.outputs) == ("b", ("y",))


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    def answer(x):
        half = tf.sqrt(x)  # NaN below 0
        tf.debugging.assert_less(x, 9.0, message="too large")
        return {"half": half, "twice": tf.stack([x, x], axis=1)}

    module = tf.Module()
    spec = tf.TensorSpec([None], tf.float32, name="x")
    module.answer = tf.function(answer, input_signature=[spec])
    path = tmp_path_factory.mktemp("version")
    tf.saved_model.save(module, str(path), {"serving_default": module.answer})
    write_manifest(path)
    return path


def make_request(*numbers, outputs=(), signature="serving_default", name="x"):
    return _warmup_requests.WarmupRequest(signature, {name: np.array(numbers, "f4")}, outputs)


def test_requests_are_answered_as_a_server_does(version, capfd):
    both, one = _warmup_requests.replay_requests(
        version, [make_request(4.0, 1.0), make_request(1.0, outputs=("twice",))]
    )
    assert both["half"].tolist() == [2.0, 1.0]
    assert set(one) == {"twice"} and one["twice"].tolist() == [[1.0, 1.0]]
    assert "deprecated" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (make_request(1.0, signature="other"), 'Serving signature key "other" not found'),
        (make_request(1.0, name="z"), "Sent extra: {z}. Missing but required: {x}."),
        (
            make_request(1.0, outputs=("z",)),
            "signature: z Outputs expected to be in the set {half,twice}",
        ),
        (make_request(4.0, -1.0), "output half: not every number is finite"),
        (make_request(10.0), "too large"),
    ],
)
def test_requests_that_fail_are_told(request_, told, version):
    with pytest.raises((ValueError, ServingError), match=told):
        _warmup_requests.replay_requests(version, [make_request(1.0), request_])


@pytest.mark.parametrize("tokens", [0, 1, 7, 31])
def test_texts_are_as_long_as_asked(tokens):
    lines = ["ein Mann läuft schnell .", "der Hund läuft ."] * 10
    for kind in ("characters", "words", "wordpiece"):
        tokenizer = tokenizers.train(kind, lines)
        text = _warmup_requests.make_text_of_length(tokenizer, tokens)
        length = tokenizer.encode([text])[1].numpy()[0]
        assert 0.8 * tokens <= length <= tokens
