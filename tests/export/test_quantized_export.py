"""Exports of quantized translators: int8 variables, small files, the answers of the model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.models import rnnsearch, transformer
from keras_attention.export import (
    SearchOptions,
    Translator,
    _version_writer,
    export_translator,
    runs,
    tokenizers,
    validate_export,
)
from keras_attention.export import __main__ as command

pytestmark = pytest.mark.usefixtures("frozen_heap")
WORDS = tokenizers.WordTokenizer([f"w{number}" for number in range(993)])
SEARCH = SearchOptions(beam_width=2, max_length=5)
TEXTS = ["w7 w991 w3", "w5 w5", ""]
BUILDERS = {
    "transformer": lambda: transformer.build(997, 997, units=64, layers=1, dropout=0.0),
    "rnnsearch": lambda: rnnsearch.build(997, 997, units=64, embedding_dim=61),
}


@pytest.fixture
def no_warm_up(monkeypatch):
    replay = "replay_requests"
    monkeypatch.setattr(_version_writer._warmup_requests, replay, lambda path, requests: [])


def measure_variables(version):
    """Returns the bytes of the variables, and the fraction of int8 among the kernels' numbers."""
    reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items() if "parameters" in name}
    kernels = [name for name in sizes if len(shapes[name]) > 1 and min(shapes[name]) > 1]
    int8 = sum(sizes[name] for name in kernels if dtypes[name] == tf.int8)
    size = sum(sizes[name] * dtypes[name].size for name in sizes)
    return size, int8 / sum(sizes[name] for name in kernels)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rnnsearch", pytest.param("transformer", marks=pytest.mark.slow)])
def test_an_int8_export_is_small_and_answers_as_the_model(no_warm_up, tmp_path, name):
    keras.utils.set_random_seed(1)
    model = BUILDERS[name]()
    options = {"source": WORDS, "target": WORDS, "search": SEARCH}
    exact = tf.saved_model.load(export_translator(model, tmp_path / "exact", **options))
    runs.quantize_model(model, "int8")
    version = export_translator(model, tmp_path / "int8", **options)
    assert validate_export(version) == []
    size, fraction = measure_variables(version)
    float32, _ = measure_variables(tmp_path / "exact" / "1")
    assert fraction > 0.95 and size < 0.3 * float32
    served = tf.saved_model.load(version)
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))
    expected = Translator.from_model(model, **options).beam(TEXTS)
    assert found["text"].numpy().astype(str).tolist() == [one.texts for one in expected]
    request = {"text": tf.constant(TEXTS), "target": tf.constant(["w1 w2", "w992", "w3"])}
    scores = [one.signatures["score"](**request)["log_prob"] for one in (exact, served)]
    np.testing.assert_allclose(*scores, rtol=0.01)


@pytest.mark.thorough
def test_the_command_quantizes_a_run(no_warm_up, tmp_path, capsys):
    model = BUILDERS["rnnsearch"]()
    runs.write_run(tmp_path / "run", model, {"model": "rnnsearch"}, WORDS, WORDS)
    arguments = [str(tmp_path / "run"), str(tmp_path / "served"), "--quantization", "int8"]
    assert command.main([*arguments, "--max-length", "3"]) == 0
    assert measure_variables(tmp_path / "served" / "1")[1] > 0.95
    runs.write_run(
        tmp_path / "run", runs.quantize_model(model, "int8"), {"model": "x"}, WORDS, WORDS,
        replace=True,
    )  # fmt: skip
    capsys.readouterr()
    assert command.main(arguments) == 1
    assert "already quantized" in capsys.readouterr().err
