"""Models that `keras.Model.export` carries to ONNX Runtime and OpenVINO give Keras' numbers there.

`sh .ci/runtimes` installs the runtimes and runs this file; elsewhere it is skipped.
"""

import keras
import numpy as np
import pytest

import keras_attention as ka
from examples.models import convs2s, rnnsearch, transformer
from keras_attention.export import runs

VOCABULARY = 23
IDS = np.array([[5, 3, 7, 0, 0], [2, 9, 4, 6, 8]], "int32")
REASON = "not installed; `sh .ci/runtimes` installs it and runs this file"


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


def run_onnx(model, path, tensors):
    onnxruntime = pytest.importorskip("onnxruntime", reason=f"onnxruntime is {REASON}")
    optimizer = pytest.importorskip("tf2onnx.optimizer", reason=f"tf2onnx is {REASON}")
    optimizer._optimizers.pop("reshape_optimizer", None)  # loses transposed heads, in 1.17
    model.export(path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path / "model.onnx")
    names = [tensor.name for tensor in session.get_inputs()]
    return session.run(None, dict(zip(names, tensors, strict=True)))


def run_openvino(model, path, tensors):
    openvino = pytest.importorskip("openvino", reason=f"openvino is {REASON}")
    model.export(str(path / "model.xml"), format="openvino", verbose=False)
    compiled = openvino.Core().compile_model(path / "model.xml", "CPU")
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(tensors)))
    return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]


class Step(keras.layers.Layer):
    """One step of a decoder: ids and the tensors of state and memory to logits and state."""

    def __init__(self, decoder, structure):
        super().__init__()
        self.decoder, self.structure = decoder, structure

    def call(self, ids, *tensors):
        state, memory = keras.tree.pack_sequence_as(self.structure, tensors)
        logits, state, _ = self.decoder.step(ids, state, memory)
        return [logits, *keras.tree.flatten(state)]


def build_step(model, dim, **initial_state):
    """Returns the step of a translator's decoder, and the tensors of the first one."""
    decoder, encoded = model.get_layer("decoder"), keras.random.normal((2, 5, dim))
    memory = decoder.prepare(encoded, keras.ops.convert_to_tensor(IDS != 0))
    structure = decoder.start(memory, max_length=7, **initial_state), memory
    tensors = [IDS[:, 1], *(np.array(leaf) for leaf in keras.tree.flatten(structure))]
    inputs = [
        keras.Input([None if size == 5 else size for size in x.shape[1:]], dtype=str(x.dtype))
        for x in tensors
    ]
    return keras.Model(inputs, Step(decoder, structure)(*inputs)), tensors


def build_rnnsearch():
    return rnnsearch.build(VOCABULARY, VOCABULARY, units=8, embedding_dim=7)


def build_transformer():
    return transformer.build(VOCABULARY, VOCABULARY, units=8, heads=2, layers=1)


def build_classifier():
    words = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(VOCABULARY, 8, mask_zero=True)(words)
    pooled = ka.AttentionPooling(7)(ka.SelfAttention(6)(embedded))
    return keras.Model(words, keras.layers.Dense(3)(pooled)), [IDS]


CASES = {
    "classifier": build_classifier,
    "rnnsearch encoder": lambda: (build_rnnsearch().get_layer("encoder"), [IDS]),
    "transformer encoder": lambda: (build_transformer().get_layer("encoder"), [IDS]),
    "convs2s encoder": lambda: (
        convs2s.build(VOCABULARY, VOCABULARY, embedding_dim=8).get_layer("encoder"),
        [IDS],
    ),
    "rnnsearch step": lambda: build_step(
        build_rnnsearch(), 16, initial_state=keras.random.normal((2, 8))
    ),
    "transformer step": lambda: build_step(build_transformer(), 8),
}


@pytest.mark.thorough
@pytest.mark.parametrize("run", [run_onnx, run_openvino])
@pytest.mark.parametrize("name", CASES)
def test_a_runtime_gives_the_numbers_of_keras(tmp_path, name, run):
    model, tensors = CASES[name]()
    outputs = model([keras.ops.convert_to_tensor(x) for x in tensors] if len(tensors) > 1 else IDS)
    expected = [np.array(output) for output in keras.tree.flatten(outputs)]
    found = run(model, tmp_path, tensors)
    assert len(found) >= len(expected)  # OpenVINO may append what is no output of the model
    for one, other in zip(found, expected, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("build", [build_rnnsearch, build_transformer])
def test_an_int8_encoder_runs_in_onnx_runtime(tmp_path, build):
    model = runs.quantize_model(build().get_layer("encoder"), "int8")
    expected = [np.array(output) for output in keras.tree.flatten(model(IDS))]
    for one, other in zip(run_onnx(model, tmp_path, [IDS]), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
