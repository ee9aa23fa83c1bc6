"""Models that are not translators: their inputs and outputs, text in front, nothing of Keras."""

import json
import os
import re

import answer
import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from keras_attention import BahdanauAttention
from keras_attention.export import (
    TextInput,
    _model_card,
    _warmup_requests,
    export_model,
    tokenizers,
    validate_export,
)

WORDS = tokenizers.WordTokenizer(["a", "b", "c"])


def small_model():
    """Words, sentences and frames in; probabilities, whole numbers and attention out."""
    words = keras.Input((None,), dtype="int32", name="words")
    sentences = keras.Input((None, 5), dtype="int64", name="sentences")
    frames = keras.Input((3, 11), name="frames")
    embedding = keras.layers.Embedding(7, 13)
    query = keras.layers.Dense(17)(keras.layers.Flatten()(frames))
    context, weights = BahdanauAttention(19)(query, embedding(words), return_attention_scores=True)
    told = keras.layers.GlobalMaxPooling1D()(
        keras.layers.Reshape((-1, 5 * 13))(embedding(sentences))
    )
    logits = keras.layers.Dense(2)(keras.layers.Concatenate()([context, told]))
    outputs = {
        "probability": keras.layers.Softmax()(logits),
        "best": keras.ops.argmax(logits, axis=-1),
        "likely": keras.ops.greater(logits, 0.0),
        "attention": weights,
    }
    inputs = {"words": words, "sentences": sentences, "frames": frames}
    return keras.Model(inputs, outputs, name="small")


@pytest.fixture(scope="module")
def model():
    set_seed(3)
    return small_model()


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    base = tmp_path_factory.mktemp("served") / "my model"
    texts = {"words": TextInput(WORDS, max_length=3, add_eos=True), "sentences": WORDS}
    descriptions = {"probability": "of yes and no", "words": "the question"}
    files = {"source": "/srv/x/a.txt", "dev": "../x/y/b.txt"}
    run = {"model": "small", "training": {**files, "epochs": 3}}
    return export_model(model, base, tokenizers=texts, descriptions=descriptions, run=run)


def inputs_of(rows):
    text = ["a b c a", "", "z"]
    sentences = [["a b c a b c", "b"], ["", "c"], ["a", ""]]
    return {
        "words": np.array([t.encode() for t in text[:rows]], object),
        "sentences": np.array(sentences, object).reshape(3, 2)[:rows],
        "frames": np.random.default_rng(1).normal(size=(3, 3, 11)).astype("f4")[:rows],
    }


@pytest.mark.thorough
def test_answers_are_those_of_the_model(path, model):
    words = np.array([[4, 5, 3], [3, 0, 0], [1, 3, 0]])
    sentences = np.zeros((3, 2, 5), int)
    sentences[0, 0], sentences[0, 1, 0], sentences[1, 1, 0] = [4, 5, 6, 4, 5], 5, 6
    sentences[2, 0, 0] = 4
    inputs = inputs_of(3)
    expected = model({"words": words, "sentences": sentences, "frames": inputs["frames"]})
    found = answer.Loaded(path).ask("serving_default", **inputs)
    dtypes = {"probability": "f4", "best": "i4", "likely": "i4", "attention": "f4"}
    assert {name: value.dtype for name, value in found.items()} == dtypes
    for name, value in expected.items():
        value = keras.ops.convert_to_numpy(value)
        np.testing.assert_allclose(found[name], value.astype("f4"), atol=1e-6)


def test_no_rows_and_wrong_rows(path):
    loaded = answer.Loaded(path)
    found = loaded.ask("serving_default", **inputs_of(0))
    assert {value.shape[0] for value in found.values()} == {0}
    inputs = inputs_of(3) | {"frames": inputs_of(1)["frames"]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many rows"):
        loaded.ask("serving_default", **inputs)


def test_the_version_is_whole(path, model):
    assert path.name == "1" and validate_export(path) == []
    files = sum(file.stat().st_size for file in (path / "variables").iterdir())
    parameters = sum(v.numpy().nbytes for v in model.variables)
    assert parameters <= files <= 1.1 * parameters + 2000
    card = json.loads((path / "assets.extra" / "model_card.json").read_text())
    assert card["name"] == "my_model" and card["run"]["training"] == {
        "source": "a.txt",
        "dev": "b.txt",
        "epochs": 3,
    }
    signature = card["signatures"]["serving_default"]
    assert signature["inputs"]["sentences"] == {
        "dtype": "string",
        "shape": [None, None],
        "description": "",
    }
    assert signature["outputs"]["probability"]["description"] == "of yes and no"
    page = (path / "assets.extra" / "model_card.md").read_text()
    assert "| output | `attention` | float32 | (batch, ?) |" in page
    assert "| input | `words` | string | (batch) | the question |" in page
    batches = [len(request.inputs["words"]) for request in _warmup_requests.read_requests(path)]
    assert batches == [1, 8]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("https://example.org/data/c.gz", "https://example.org/data/c.gz"),
        ("from gs://bucket/a/b.txt to ~/x/y/c.txt", "from gs://bucket/a/b.txt to c.txt"),
        ("--train=/srv/x/a.txt", "--train=a.txt"),
        ("file:///srv/x/a.txt", "file://a.txt"),
    ],
)
def test_paths_of_the_run_are_shortened_and_urls_are_kept(text, expected):
    assert _model_card.strip_paths({"data": [text]}) == {"data": [expected]}


def test_configurations_are_what_the_server_reads(path):
    folder = path / "assets.extra"
    config_pb2 = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    from google.protobuf import text_format

    text = (folder / "models.config").read_text()
    (model,) = text_format.Parse(text, config_pb2.ModelServerConfig()).model_config_list.config
    assert (model.name, model.base_path) == ("my_model", "/models/my_model")
    assert model.model_platform == "tensorflow"
    batching = (folder / "batching.config").read_text()
    sizes = [int(size) for size in re.findall(r"^allowed_batch_sizes: (\d+)$", batching, re.M)]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert "max_batch_size { value: 256 }" in batching  # must be the last allowed size
    # Parts of a request would be put together by bytes: see test_batching.py.
    assert not re.search("^(enable_large_batch_splitting|max_execution_batch_size)", batching, re.M)
    # Only signatures that read a length may be padded with whatever stands first.
    assert "pad_variable_length_inputs" not in batching
    assert "prometheus" in (folder / "monitoring.config").read_text()


def test_a_list_of_outputs_has_the_names_of_its_layers(tmp_path):
    inputs = keras.Input((5,), name="frames")
    outputs = [keras.layers.Dense(3, name="one")(inputs), keras.layers.Dense(2, name="two")(inputs)]
    examples = {"frames": np.ones((4, 5))}
    version = export_model(keras.Model(inputs, outputs), tmp_path, examples=examples, version=7)
    found = answer.Loaded(version).ask("serving_default", frames=np.ones((2, 5), "f4"))
    assert {name: value.shape for name, value in found.items()} == {"one": (2, 3), "two": (2, 2)}
    assert _warmup_requests.read_requests(version)[1].inputs["frames"].tolist() == [[1.0] * 5] * 8


def test_examples_without_a_row_are_refused_and_nothing_is_written(tmp_path):
    inputs = keras.Input((5,), name="frames")
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    with pytest.raises(
        ValueError, match="at least one example of every input.*no example of frames"
    ):
        export_model(model, tmp_path, examples={"frames": np.ones((0, 5))})
    assert list(tmp_path.iterdir()) == []


class Spelled(keras.layers.Layer):
    """Says "long" or "short" of each row, as text."""

    def call(self, frames):
        return tf.where(tf.reduce_sum(frames, axis=1) > 2, "long", "short")

    def compute_output_spec(self, frames):
        return keras.KerasTensor(frames.shape[:1], "string")


def test_text_that_a_layer_makes_stays_text(tmp_path):
    inputs = keras.Input((5,), name="frames")
    model = keras.Model({"frames": inputs}, {"said": Spelled()(inputs), "same": inputs})
    version = export_model(model, tmp_path)
    found = answer.Loaded(version).ask(
        "serving_default", frames=np.eye(3, 5, dtype="f4") * [[1], [3], [4]]
    )
    assert found["said"].tolist() == [b"short", b"long", b"long"]
    assert found["same"].dtype == np.float32


@pytest.mark.parametrize("examples", [None, {"color": [["red", "blue"]], "size": [1]}])
def test_strings_stay_strings(examples, tmp_path):
    inputs = {
        "color": keras.Input((2,), dtype="string", name="color"),
        "size": keras.Input((), dtype="int64", name="size"),
    }
    outputs = {"bucket": keras.layers.Hashing(11)(inputs["color"]), "size": inputs["size"] + 1}
    model = keras.Model(inputs, outputs)
    path = export_model(model, tmp_path / "colors", examples=examples)
    served = tf.saved_model.load(str(path)).signatures["serving_default"]
    colors = tf.constant([["red", "blue"], ["blue", "green"]])
    found = served(color=colors, size=tf.constant([1, 2]))
    np.testing.assert_array_equal(found["bucket"], keras.layers.Hashing(11)(colors))
    np.testing.assert_array_equal(found["size"], [2, 3])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tokenizers": {"z": WORDS}}, "tokenizers` for the inputs frames, .*Received: .* for z"),
        ({"tokenizers": {"words": "words"}}, "Received: tokenizer=str"),
        ({"descriptions": {"z": "?"}}, "descriptions of z"),
        ({"examples": {"words": [[1]]}}, "`examples` for the inputs.*Received: words"),
        ({"version": 0}, "version=0"),
        ({"name": "a b"}, "`name` to consist of letters.*name='a b'"),
    ],
)
def test_arguments_are_checked_before_anything_is_written(options, text, model, tmp_path):
    with pytest.raises(ValueError, match=text):
        export_model(model, tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_models_that_cannot_be_served_are_refused(tmp_path):
    inputs = keras.Input((5,), name="frames")
    with pytest.raises(ValueError, match="functional keras.Model.*type Sequential"):
        export_model(keras.Sequential(), tmp_path)
    with pytest.raises(ValueError, match="to be the batch.*fixed of shape .2, 5."):
        fixed = keras.Input(batch_shape=(2, 5), name="fixed")
        export_model(keras.Model(fixed, keras.layers.ReLU()(fixed)), tmp_path)
    with pytest.raises(ValueError, match="different names.*twin, twin"):
        twin = keras.layers.Dense(2, name="twin")
        export_model(keras.Model(inputs, [twin(inputs), twin(inputs * 2.0)]), tmp_path)
    with pytest.raises(ValueError, match="finite numbers.*output log: not every number is finite"):
        log = keras.ops.log(inputs)  # of the zeros of a warm-up request
        export_model(keras.Model(inputs, {"log": log}), tmp_path)
    assert os.listdir(tmp_path) == []
