"""AttentionRNN and recurrent decoders with several heads."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka

BATCH, TIME, SOURCE, DIM, MEMORY, UNITS = 3, 5, 7, 11, 13, 2
ORDERS = pytest.mark.parametrize(
    ("order", "input_feeding"), [("bahdanau", False), ("luong", True), ("luong", False)]
)


def _layer(order, input_feeding, dtype="float64", **options):
    set_seed(1)
    cell = keras.layers.GRUCell(UNITS, recurrent_initializer="normal", dtype=dtype)
    attention = ka.MultiHeadAttention(3, 4, output_dim=5, dtype=dtype, **options)
    return ka.AttentionRNN(cell, attention, order, input_feeding, dtype=dtype)


def _data(dtype="float64"):
    random = np.random.RandomState(5)
    shapes = (BATCH, TIME, DIM), (BATCH, SOURCE, MEMORY)
    return [random.randn(*shape).astype(dtype) for shape in shapes]


def test_contexts_and_weights_are_those_of_the_heads():
    (inputs, memory), mask = _data(), np.arange(SOURCE) < np.array([[7], [5], [2]])
    layer = _layer("luong", True)
    layer = ka.AttentionRNN.from_config({**layer.get_config(), "attentional_units": 0})
    outputs, contexts, weights = layer(
        inputs, memory, memory_mask=mask, return_context=True, return_attention_scores=True
    )
    expected = layer.attention(outputs, memory, value_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(contexts, expected[0], atol=1e-12)
    np.testing.assert_allclose(weights, np.mean(expected[1], axis=1), atol=1e-12)
    assert contexts.shape == (BATCH, TIME, 5)
    assert np.ptp(np.array(expected[1]), axis=1).max() > 0.01, "heads differ"


@ORDERS
def test_steps_with_beams_equal_the_call(order, input_feeding):
    (inputs, memory), layer = _data(), _layer(order, input_feeding, rotary=ka.RotaryEmbedding())
    outputs, weights = layer(inputs, memory, return_attention_scores=True)
    prepared = layer.prepare(tf.constant(memory))
    twice = keras.tree.map_structure(lambda leaf: tf.repeat(leaf, 2, axis=0), layer.start(prepared))
    for step in range(TIME):
        rows = tf.repeat(inputs[:, step], 2, axis=0)
        output, _, weight, twice = layer.step(rows, twice, prepared)
        np.testing.assert_allclose(output[::2], outputs[:, step], atol=1e-6)
        np.testing.assert_allclose(weight[1::2], weights[:, step], atol=1e-6)


@ORDERS
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_shapes_are_known_beforehand(order, input_feeding, dtype):
    layer = _layer(order, input_feeding, dtype)
    flags = dict.fromkeys(("return_context", "return_attention_scores", "return_state"), True)
    data = [keras.ops.cast(one, layer.compute_dtype) for one in _data()]
    symbols = [keras.Input(batch_shape=one.shape, dtype=layer.compute_dtype) for one in data]
    pairs = zip(*(keras.tree.flatten(layer(*one, **flags)) for one in (data, symbols)), strict=True)
    for one, symbol in pairs:
        assert tuple(one.shape) == tuple(symbol.shape)
        assert keras.backend.standardize_dtype(one.dtype) == symbol.dtype


def test_dropout_of_heads_passes_through_the_loop():
    (inputs, memory), layer = _data(), _layer("bahdanau", False, dropout=0.5, seed=3)
    first, second = (np.array(layer(inputs, memory, training=True)) for _ in range(2))
    assert not np.allclose(first, second)
    layer.attention.dropout = 0.0
    assert not np.allclose(first, layer(inputs, memory, training=True))


@pytest.mark.parametrize("make", [ka.LuongDecoder, ka.BahdanauDecoder])
def test_steps_of_a_decoder_with_reordered_beams_equal_its_call(make):
    attention, memory = ka.MultiHeadAttention(3, 4, output_dim=5), _data("float32")[1]
    decoder = make(17, 3, UNITS, attention=attention)
    ids = np.random.RandomState(1).randint(3, 17, size=(BATCH, TIME))
    assert ka.check_decoder(decoder, ids, memory) < 1e-5


def test_a_decoder_that_starts_from_the_mean_of_its_memory_refuses_heads():
    with pytest.raises(ValueError, match="does not support several heads.*Received: attention="):
        ka.ShowAttendTellDecoder(17, 3, UNITS, attention=ka.MultiHeadAttention(3, 4))


@ORDERS
@pytest.mark.thorough
def test_it_trains_compiled_with_unknown_sizes(order, input_feeding):
    layer = _layer(order, input_feeding, "float32", dropout=0.3, seed=3)
    layer.build((None, None, DIM), (None, None, MEMORY))

    def gradients(inputs, memory):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(inputs, memory, training=True) ** 2)
        return tape.gradient(total, layer.trainable_variables)

    specs = [tf.TensorSpec([None, None, DIM]), tf.TensorSpec([None, None, MEMORY])]
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    for one in compiled(*_data("float32")):
        assert np.all(np.isfinite(one)) and np.any(one != 0)
