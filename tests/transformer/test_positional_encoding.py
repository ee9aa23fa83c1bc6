"""Sinusoidal and learned positions: the paper's table, rotation, steps, length limits."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import LearnedPositionalEmbedding, PositionalEncoding

B, T, D = 3, 5, 14


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


def _table(length, dim, **options):
    layer = PositionalEncoding(dtype="float64", **options)
    return np.array(layer(np.zeros((1, length, dim))))[0]


def test_the_table_of_four_columns():
    # SPEC 23.
    expected = [[0, 1, 0, 1], [0.841471, 0.540302, 0.01, 0.99995]]
    expected.append([0.909297, -0.416147, 0.019999, 0.9998])
    np.testing.assert_allclose(_table(3, 4), expected, atol=1e-6)


def test_each_entry_follows_the_formula():
    table = _table(11, D)
    for position in range(11):
        for i in range(D // 2):
            angle = position / 10000 ** (2 * i / D)
            assert table[position, 2 * i] == pytest.approx(np.sin(angle), abs=1e-12)
            assert table[position, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-12)


@pytest.mark.parametrize("k", [1, 7, 40])
def test_a_step_forward_is_a_rotation_of_each_pair(k):
    table = _table(60, D)
    for i in range(D // 2):
        angle = k / 10000 ** (2 * i / D)
        rotation = np.array(
            [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        )  # (sin, cos) of pos to (sin, cos) of pos + k
        pairs = table[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(pairs[:-k] @ rotation.T, pairs[k:], atol=1e-6)


def test_the_inputs_are_scaled_before_the_positions_are_added():
    inputs = _random(B, T, D)
    scaled = PositionalEncoding(scale=True, dtype="float64")(inputs)
    np.testing.assert_allclose(scaled, inputs * np.sqrt(D) + _table(T, D), atol=1e-12)


LAYERS = {
    "sinusoidal": lambda **o: PositionalEncoding(scale=True, **o),
    "learned": lambda **o: LearnedPositionalEmbedding(23, scale=True, **o),
}


@pytest.mark.parametrize("name", LAYERS)
def test_positions_given_are_those_counted(name):
    layer, inputs = LAYERS[name](dtype="float64"), _random(B, T, D)
    whole = np.array(layer(inputs))
    first = np.array([0, 2, 9], "int32")
    every = first[:, None] + np.arange(T, dtype="int32")
    np.testing.assert_array_equal(layer(inputs, first), layer(inputs, every))
    np.testing.assert_array_equal(layer(inputs, np.zeros(B, "int32")), whole)
    moved = np.array(layer(inputs, first))
    for time in range(T):
        step = layer(inputs[:, time], first + time)
        np.testing.assert_allclose(step, moved[:, time], atol=1e-12)
    np.testing.assert_array_equal(layer(inputs[:, 0]), whole[:, 0])


@pytest.mark.parametrize("name", LAYERS)
def test_half_precision_does_not_confuse_positions(name):
    # Counted in bfloat16, 256 and 257 would be one.
    layer = LAYERS[name](dtype="bfloat16") if name == "sinusoidal" else None
    if layer is None:
        layer = LearnedPositionalEmbedding(300, initializer="normal", dtype="bfloat16")
    rows = np.array(keras.ops.cast(layer(np.zeros((1, 290, D))), "float32"))[0]
    assert np.abs(rows[257] - rows[256]).max() > 1e-2


def test_learned_positions_are_rows_of_the_table():
    layer, inputs = LearnedPositionalEmbedding(7, dtype="float64"), _random(B, T, D)
    outputs = np.array(layer(inputs))
    np.testing.assert_allclose(outputs - inputs, np.array(layer.table)[None, :T] + 0 * inputs)


def test_a_length_beyond_the_table_is_refused():
    layer = LearnedPositionalEmbedding(4)
    with pytest.raises(ValueError, match="learned 4 positions. .* Received: length=5"):
        layer(np.zeros((B, T, D)))
    with pytest.raises(ValueError, match="Received: length=6"):
        layer(np.zeros((B, D)), np.array([0, 5, 1], "int32"))
    with pytest.raises(ValueError, match="Received: length=5"):
        layer(keras.Input([T, D]))


def test_an_unknown_length_beyond_the_table_gets_the_last_row():
    layer = LearnedPositionalEmbedding(4)
    layer.build((None, None, D))
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, None, D])])
    outputs = traced(tf.zeros((1, 6, D)))[0]
    table = np.array(layer.table)
    np.testing.assert_array_equal(outputs, table[[0, 1, 2, 3, 3, 3]])


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="even width, .* Received: inputs.shape=\\(3, 5, 7\\)"):
        PositionalEncoding()(np.zeros((3, 5, 7)))
    with pytest.raises(ValueError, match="`base` .* Received: base=0.5"):
        PositionalEncoding(base=0.5)
    with pytest.raises(ValueError, match="`position` of shape .* position.shape=\\(2,\\)"):
        PositionalEncoding()(np.zeros((B, T, D)), np.zeros(2, "int32"))
    with pytest.raises(ValueError, match="positive int. Received: max_length=0"):
        LearnedPositionalEmbedding(0)
