"""Every layer where `keras.config.set_floatx("float64")` makes integers 64 bits wide as well."""

import keras
import numpy as np
import pytest
from backends import compile_call, gradients, outputs_and_gradients, tensorflow_only
from layer_rows import Row, arrays
from layer_table import READ, TABLE
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.search import beam_search, greedy_search, sample_search, score_sequences

BLOCKED = Row(ka.BahdanauAttention, lambda **o: ka.BahdanauAttention(5, blockwise=True, **o), READ)
#: Where integers met those of another width; the others wait for `make test-thorough`.
FAST = ("BahdanauAttention", "LSTMN", "BahdanauDecoder", "TransformerDecoder", "NTM")
ROWS = pytest.mark.parametrize("row", [*TABLE, BLOCKED], ids=str)
SOME = pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=str(row), marks=[] if str(row) in FAST else pytest.mark.thorough)
        for row in [*TABLE, BLOCKED]
    ],
)
DECODERS = [row for row in TABLE if issubclass(row.layer, ka.Decoder)]
LENGTH = 3
SEARCHES = {
    "beam": lambda *a: beam_search(*a, beam_width=2, max_length=LENGTH),
    "greedy": lambda *a: greedy_search(*a, max_length=LENGTH),
    "sample": lambda *a: sample_search(*a, max_length=LENGTH, top_p=0.9, seed=np.arange(3)),
    "score": lambda *a: score_sequences(*a, np.full((3, LENGTH), 5)),
}
pytestmark = tensorflow_only  # the others hold no operation to one width of integers


@pytest.fixture(autouse=True)
def _wide_floats():
    before, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # Keras remembers the one it made first
    yield
    keras.config.set_floatx(before)
    keras.config.set_dtype_policy(policy)


@pytest.mark.thorough
@SOME
def test_outputs_and_gradients_are_those_of_float32(row):
    narrow, layer, data = row.built(dtype="float32"), row.built(), row.data(masks=True)
    layer.set_weights(narrow.get_weights())
    assert layer.compute_dtype == "float64"
    expected = outputs_and_gradients(row, narrow, data)
    for results, others in zip(outputs_and_gradients(row, layer, data), expected, strict=True):
        for one, other in zip(results, others, strict=True):
            scale = max(1.0, np.abs(other).max())
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * scale)


@pytest.mark.thorough
@ROWS
def test_a_graph_of_unknown_sizes_gives_the_same(row):
    layer, data = row.built(), row.data(masks=True)
    run = compile_call(row, layer, lambda data: gradients(row, layer, data), xla=False)
    expected = outputs_and_gradients(row, layer, data)
    for one, other in zip(arrays(run(data)), sum(expected, []), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("row", DECODERS, ids=str)
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_gives_the_same_compiled(row, name):
    decoder = row.built()
    outputs = keras.ops.convert_to_tensor(row.data()["encoder_outputs"])

    def search(outputs):
        memory = decoder.prepare(outputs)
        return SEARCHES[name](decoder.step, decoder.start(memory, max_length=LENGTH), memory)

    graph = tf.function(search, autograph=False)(outputs)
    for key, value in search(outputs).items():
        np.testing.assert_allclose(graph[key], value, atol=1e-5, err_msg=key)
