"""The warm-up file: the messages of the server's own classes, and requests that are answered."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from keras_attention.export import _warmup_requests, _wire_format, tokenizers

INPUTS = {
    "text": np.array([b"a", b"", "\u00e4\x00".encode()], object),
    "seed": np.array([-1, 0, 2**31 - 1], np.int32),
    "frames": np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5) / 7,
    "nothing": np.zeros((0, 3), np.float32),
}


def test_the_servers_classes_read_what_is_written():
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    content = _wire_format.encode_prediction_log("model", "sample", INPUTS, ("text", "score"))
    request = prediction_log_pb2.PredictionLog.FromString(content).predict_log.request
    assert request.model_spec.name == "model"
    assert request.model_spec.signature_name == "sample"
    assert list(request.output_filter) == ["text", "score"]
    assert set(request.inputs) == set(INPUTS)
    for name, value in INPUTS.items():
        assert np.array_equal(tf.make_ndarray(request.inputs[name]), value)


def test_what_the_servers_classes_write_is_read():
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.sampling_config.sampling_rate = 0.5
    request = log.predict_log.request
    request.model_spec.name = "m" * 300  # a length of two digits
    request.model_spec.version.value = 2**40
    request.client_id = b"someone"
    for name, value in INPUTS.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    model, signature, inputs, outputs = _wire_format.decode_prediction_log(log.SerializeToString())
    assert (model, signature, outputs) == ("m" * 300, "serving_default", ())
    assert set(inputs) == set(INPUTS)
    assert all(np.array_equal(inputs[name], value) for name, value in INPUTS.items())


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_damaged_messages_are_refused_or_read(junk, place, byte):
    content = bytearray(
        _wire_format.encode_prediction_log("m", "s", {"x": np.ones(3, "f4")}, ("y",))
    )
    content[place % len(content)] = byte
    for message in (junk, bytes(content), bytes(content[:place])):
        try:
            read = _wire_format.decode_prediction_log(message)
        except ValueError:
            continue
        model, signature, inputs, outputs = read
        assert {type(text) for text in (model, signature, *inputs, *outputs)} == {str}
        assert all(isinstance(array, np.ndarray) for array in inputs.values())


@pytest.mark.parametrize("dtype", [types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT, 99, 0])
def test_inputs_of_a_dtype_without_values_are_refused(dtype):
    message = _wire_format.encode_prediction_log("m", "s", {"x": np.ones(3, "f4")})
    tensor = tf.make_tensor_proto(np.ones(3, "f4")).SerializeToString()
    assert tensor[:2] == b"\x08\x01" and message.count(tensor) == 1  # field 1, float32
    other = tensor[:1] + bytes([dtype]) + tensor[2:]
    with pytest.raises(ValueError, match="not a tensor that has values"):
        _wire_format.decode_prediction_log(message.replace(tensor, other))


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
    return path


def asked(*numbers, outputs=(), signature="serving_default", name="x"):
    return _warmup_requests.WarmupRequest(signature, {name: np.array(numbers, "f4")}, outputs)


def test_requests_are_answered_as_a_server_does(version, capfd):
    both, one = _warmup_requests.replay_requests(
        version, [asked(4.0, 1.0), asked(1.0, outputs=("twice",))]
    )
    assert both["half"].tolist() == [2.0, 1.0]
    assert set(one) == {"twice"} and one["twice"].tolist() == [[1.0, 1.0]]
    assert "deprecated" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (asked(1.0, signature="other"), "there is no signature other"),
        (asked(1.0, name="z"), "has the inputs x. Received: z"),
        (asked(1.0, outputs=("z",)), "has the outputs half, twice. Received: z"),
        (asked(4.0, -1.0), "output half: not every number is finite"),
        (asked(10.0), "too large"),
    ],
)
def test_requests_that_fail_are_told(request_, told, version):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=told):
        _warmup_requests.replay_requests(version, [asked(1.0), request_])


@pytest.mark.parametrize("tokens", [0, 1, 7, 31])
def test_texts_are_as_long_as_asked(tokens):
    lines = ["ein Mann läuft schnell .", "der Hund läuft ."] * 10
    for kind in ("characters", "words", "wordpiece"):
        tokenizer = tokenizers.train(kind, lines)
        text = _warmup_requests.make_text_of_length(tokenizer, tokens)
        length = tokenizer.encode([text])[1].numpy()[0]
        assert 0.8 * tokens <= length <= tokens
