"""AttentionRNN with attention that carries a state of its own from step to step."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka

BATCH, TIME, SOURCE, DIM, UNITS = 3, 5, 7, 11, 2
MECHANISMS = {
    "gmm": lambda **o: ka.GMMAttention(3, initial_step=1.0, initial_width=1.0, **o),
    "forward": lambda **o: ka.ForwardAttention("general", 5, **o),
    "chunkwise": lambda **o: ka.MonotonicChunkwiseAttention(3, "general", "general", **o),
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)
STATES = {"gmm": {"means": 3}, "forward": {"transition": 1}, "chunkwise": {"stop_weights": SOURCE}}


def _layer(name, order="luong", dtype="float64", **options):
    set_seed(1)
    cell = keras.layers.GRUCell(UNITS, recurrent_initializer="normal", dtype=dtype)
    if order == "luong":
        options = {"attentional_units": 0, **options}
    return ka.AttentionRNN(cell, MECHANISMS[name](dtype=dtype), order, dtype=dtype, **options)


def _data(dtype="float64"):
    random = np.random.RandomState(5)
    inputs, memory = random.randn(BATCH, TIME, DIM), random.randn(BATCH, SOURCE, DIM)
    return inputs.astype(dtype), memory.astype(dtype)


@EVERY
def test_steps_in_a_loop_equal_a_call_with_all_queries(name):
    (inputs, memory), layer = _data(), _layer(name)
    mask = np.arange(SOURCE) < np.array([[7], [5], [2]])
    outputs, contexts, weights = layer(
        inputs, memory, memory_mask=mask, return_context=True, return_attention_scores=True
    )
    expected = layer.attention(outputs, memory, value_mask=mask, return_attention_scores=True)
    for one, other in zip((contexts, weights), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert np.ptp(np.array(weights), axis=1).max() > 0.1, "attention moves"


@EVERY
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_steps_with_beams_equal_the_call(name, order):
    (inputs, memory), layer = _data(), _layer(name, order)
    outputs, weights, last = layer(inputs, memory, return_attention_scores=True, return_state=True)
    prepared = layer.prepare(tf.constant(memory))
    twice = keras.tree.map_structure(lambda leaf: tf.repeat(leaf, 2, axis=0), layer.start(prepared))
    for step in range(TIME):
        rows = tf.repeat(inputs[:, step], 2, axis=0)
        output, _, weight, twice = layer.step(rows, twice, prepared)
        np.testing.assert_allclose(output[::2], outputs[:, step], atol=1e-12)
        np.testing.assert_allclose(weight[1::2], weights[:, step], atol=1e-12)
    assert {key: leaf.shape[1] for key, leaf in last["attention"].items()} == STATES[name]
    for key, leaf in last["attention"].items():
        np.testing.assert_allclose(twice["attention"][key][1::2], leaf, atol=1e-12)


@EVERY
def test_masked_steps_and_masked_queries_leave_the_state(name):
    (inputs, memory), layer = _data(), _layer(name)
    mask = np.array([[True, False, True, False, False], [True] * 5, [False] * 5])
    outputs, state = layer(inputs, memory, inputs_mask=mask, return_state=True)
    kept = layer(inputs[:1, [0, 2]], memory[:1], return_state=True)[1]
    for one, other in zip(*map(keras.tree.flatten, (state, kept)), strict=True):
        np.testing.assert_allclose(one[:1], other if other.ndim > 1 else [2], atol=1e-12)
    weights = layer.attention(outputs, memory, query_mask=mask, return_attention_scores=True)[1]
    rows = np.array(outputs)[:1, [0, 2]]
    expected = layer.attention(rows, memory[:1], return_attention_scores=True)[1]
    np.testing.assert_allclose(np.array(weights)[:1, [0, 2]], expected, atol=1e-12)


@EVERY
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_carries_float32(name, dtype):
    layer, symbols = _layer(name, dtype=dtype), (keras.Input((None, DIM)), keras.Input((7, DIM)))
    symbolic = layer(*symbols, return_state=True)[1]["attention"]
    data = [keras.ops.cast(one, dtype) for one in _data()]
    state = layer(*data, return_state=True)[1]["attention"]
    assert {key: leaf.shape[1] for key, leaf in symbolic.items()} == STATES[name]
    for key, leaf in state.items():
        assert symbolic[key].dtype == leaf.dtype.name == "float32"
        assert np.all(np.isfinite(leaf))


def test_other_attention_has_no_state():
    (inputs, memory), cell = _data("float32"), keras.layers.GRUCell(UNITS)
    layer = ka.AttentionRNN(cell, ka.Attention("general"))
    assert set(layer(inputs, memory, return_state=True)[1]) == {"cell", "position"}


@EVERY
def test_steps_of_a_decoder_with_reordered_beams_equal_its_call(name):
    decoder = ka.LuongDecoder(13, 3, UNITS, attention=MECHANISMS[name]())
    memory, mask = _data("float32")[1], np.arange(SOURCE) < np.array([[7], [5], [2]])
    ids = np.random.RandomState(1).randint(3, 13, size=(BATCH, TIME))
    assert ka.check_decoder(decoder, ids, memory, mask) < 1e-5
    assert decoder.start(decoder.prepare(memory))["attention"].keys() == STATES[name].keys()


@EVERY
@pytest.mark.thorough
def test_it_trains_compiled_with_unknown_sizes(name):
    layer = _layer(name, "bahdanau", "float32")
    layer.build((None, None, DIM), (None, None, DIM))

    def gradients(inputs, memory, mask):
        with tf.GradientTape() as tape:
            outputs = layer(inputs, memory, memory_mask=mask)
            queries = layer.attention(outputs, memory, value_mask=mask)  # in time
            total = tf.reduce_sum(outputs**2) + tf.reduce_sum(queries**2)
        return tape.gradient(total, layer.trainable_variables)

    specs = [tf.TensorSpec([None, None, DIM])] * 2 + [tf.TensorSpec([None, None], "bool")]
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    mask = np.arange(SOURCE) < np.array([[7], [5], [0]])
    data = [*map(tf.constant, _data("float32")), tf.constant(mask)]
    for one, other in zip(compiled(*data), gradients(*data), strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, atol=1e-4)
