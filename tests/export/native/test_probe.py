"""An exported version runs without Python, XLA disabled, and says what it says in Python.

`probe.cc` opens the version through TensorFlow's C API, with the loader of the model server, and
answers the requests of a warm-up file.
"""

import numpy as np
import pytest
import tensorflow as tf
from served_translators import LINES
from tiny_model import write_warm_up
from toy_export import Offline, with_warm_up
from toy_translator import toy_translator

from keras_attention.export import (
    SearchOptions,
    _warmup_requests,
    export_translator,
    tokenizers,
)
from keras_attention.export._warmup_requests import WARMUP_FILE
from keras_attention.export.serving import _tensor_protos

pytestmark = pytest.mark.thorough

DTYPES = {1: "float32", 3: "int32", 7: object}


def arrays(answer):
    """The outputs of a line of the probe, as arrays."""
    return {name: _array(**output) for name, output in answer["outputs"].items()}


def _array(dtype, shape, values):
    array = np.empty(len(values), DTYPES[dtype])
    array[:] = [bytes.fromhex(value) for value in values] if dtype == 7 else values
    return array.reshape(shape)


def assert_agrees(offline, request, answer):
    """Texts and numbers of tokens are the same, scores are within 1e-5."""
    assert answer["signature"] == request.signature
    expected = offline(answer["signature"], **request.inputs)
    found = arrays(answer)
    assert set(found) == set(request.outputs or expected)
    for name, array in found.items():
        assert array.shape == expected[name].shape, name
        if array.dtype == np.float32:
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            assert array.tolist() == expected[name].tolist(), name


REQUESTS = [
    (
        "serving_default",
        {"text": _tensor_protos.encode_strings(["abc", "", b"\xff\0 hij", "ä 👩‍🚀"])},
        (),
    ),
    ("serving_default", {"text": _tensor_protos.encode_strings(["<de> klm"])}, ("text",)),
    ("serving_default", {"text": _tensor_protos.encode_strings([])}, ()),
    (
        "ids",
        {"ids": np.array([[5, 6, 7], [8, -3, 99]], "int32"), "length": np.array([9, 1], "int32")},
        (),
    ),
]


@pytest.mark.thorough
def test_an_export_runs_without_python(probe, toy_path, tmp_path):
    write_warm_up(tmp_path, [*REQUESTS, ("none", {}, ()), ("serving_default", {}, ())])
    *answers, unknown, short = probe(toy_path, tmp_path / WARMUP_FILE)
    offline = Offline(toy_path)
    requests = _warmup_requests.read_requests(tmp_path)
    for request, answer in zip(requests[:-2], answers, strict=True):
        assert_agrees(offline, request, answer)
    assert "no signature none" in unknown["error"]
    assert "does not match" in short["error"]


@pytest.mark.thorough
def test_the_warm_up_file_is_answered_without_python(probe, toy_path, tmp_path):
    path = with_warm_up(toy_path, tmp_path)
    requests = _warmup_requests.read_requests(path)
    answers = probe(path, path / WARMUP_FILE)
    offline = Offline(toy_path)
    assert {request.signature for request in requests} == set(offline.names)
    for request, answer in zip(requests, answers, strict=True):
        assert_agrees(offline, request, answer)


@pytest.mark.thorough
def test_subwords_are_read_and_written_without_python(probe, tmp_path, monkeypatch):
    """SentencePiece and WordPiece, the ops of TensorFlow Text that the toy does not have."""
    monkeypatch.setattr(
        _warmup_requests, "replay_requests", lambda directory, requests: []
    )  # asked below
    source = tokenizers.train("sentencepiece", LINES, vocabulary_size=53)
    target = tokenizers.train("wordpiece", LINES)
    model = toy_translator(source.vocabulary_size, target.vocabulary_size)
    search = SearchOptions(beam_width=2, max_length=5)
    path = export_translator(model, tmp_path / "base", source=source, target=target, search=search)
    texts = _tensor_protos.encode_strings(["der Hund läuft .", "", "Tag 👩‍🚀 ☃"])
    write_warm_up(
        tmp_path,
        [
            ("translate_with_alignment", {"text": texts}, ()),
            ("score", {"text": texts, "target": texts[::-1]}, ()),
        ],
    )
    offline = Offline(path)
    requests = _warmup_requests.read_requests(tmp_path)
    answers = probe(path, tmp_path / WARMUP_FILE)
    for request, answer in zip(requests, answers, strict=True):
        assert_agrees(offline, request, answer)


def test_xla_is_refused_as_the_server_refuses_it(probe, tmp_path):
    """The probe would notice: what asks for XLA fails in it, and runs where it is allowed."""
    x = tf.TensorSpec([None], tf.float32, name="x")
    model = tf.Module()
    model.compiled = tf.function(lambda x: {"y": 2 * x + 1}, input_signature=[x], jit_compile=True)
    tf.saved_model.save(model, str(tmp_path), signatures={"compiled": model.compiled})
    write_warm_up(tmp_path, [("compiled", {"x": np.array([1, 2.5], "float32")}, ())])
    (refused,) = probe(tmp_path, tmp_path / WARMUP_FILE)
    assert "XLA" in refused["error"]
    (answer,) = probe(tmp_path, tmp_path / WARMUP_FILE, "--xla")
    assert arrays(answer)["y"].tolist() == [3.0, 6.0]
