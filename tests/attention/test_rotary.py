"""Rotary positions: one pair by hand, the paper's loops, and scores that know distances only."""

import numpy as np
import pytest
from heads_reference import rotate
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.kernels import blocked_dot


def test_one_pair_turns_by_its_position():
    inputs = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]])
    expected = [[1.0, 0.0], [0.540302, 0.841471], [-1.818595, -0.832294]]
    np.testing.assert_allclose(ka.RotaryEmbedding(dtype="float64")(inputs)[0], expected, atol=1e-6)


@pytest.mark.parametrize("base", [10000.0, 7.0])
def test_every_pair_turns_at_its_own_rate(base):
    inputs = np.random.RandomState(1).randn(3, 5, 2, 6)  # (batch, heads, length, dim)
    position = np.array([0, 4, 11])
    outputs = ka.RotaryEmbedding(base, dtype="float64")(inputs, position)
    for row, head, step in np.ndindex(3, 5, 2):
        expected = rotate(inputs[row, head, step], position[row] + step, base)
        np.testing.assert_allclose(outputs[row, head, step], expected, atol=1e-12)


def test_positions_may_be_given_one_by_one():
    inputs = np.random.RandomState(1).randn(2, 3, 4)
    layer = ka.RotaryEmbedding(dtype="float64")
    outputs = layer(inputs, np.array([[5, 6, 7], [1, 2, 3]]))
    np.testing.assert_allclose(outputs, layer(inputs, np.array([5, 1])), atol=1e-12)


def test_scores_depend_on_distances_alone():
    random = np.random.RandomState(1)
    query, key = random.randn(1, 5, 8), random.randn(1, 7, 8)
    layer = ka.RotaryEmbedding(dtype="float64")

    def scores(shift):
        position = np.array([shift])
        return np.array(layer(query, position)) @ np.array(layer(key, position)).swapaxes(1, 2)

    np.testing.assert_allclose(scores(1000), scores(0), atol=1e-9)
    assert np.abs(scores(0) - query @ key.swapaxes(1, 2)).max() > 0.1


def test_heads_that_turn_see_the_same_after_a_shift():
    set_seed(1)
    layer = ka.MultiHeadAttention(2, 4, rotary=ka.RotaryEmbedding(dtype="float64"), dtype="float64")
    states = np.random.RandomState(1).randn(2, 5, 8)
    expected = layer(states, states, use_causal_mask=True)
    cache = layer.extend_cache(layer.start_cache(2, 16), states, np.array([3, 10]))
    position = np.array([3, 10])
    shifted, _ = layer.attend(states, cache, position=position, use_causal_mask=True)
    np.testing.assert_allclose(shifted, expected, atol=1e-12)


def test_half_precision_turns_in_float32():
    inputs = np.ones((1, 5000, 2), "float32")
    exact = np.array(ka.RotaryEmbedding()(inputs))
    rough = np.array(ka.RotaryEmbedding(dtype="float16")(inputs), "float32")
    np.testing.assert_allclose(rough, exact, atol=1e-3)


def test_the_rotation_may_have_a_dtype_policy_of_its_own(monkeypatch):
    layer = ka.MultiHeadAttention(2, 4, rotary=ka.RotaryEmbedding(), dtype="mixed_float16")
    monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
    states = tf.ones((2, 5, 8))
    with tf.GradientTape() as tape:
        tape.watch(states)
        loss = tf.reduce_sum(layer(states, states))
    assert np.all(np.isfinite(tape.gradient(loss, states)))


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`base` to be a number in"):
        ka.RotaryEmbedding(0)
    with pytest.raises(ValueError, match="expects an even `dim`. Received: dim=3"):
        ka.RotaryEmbedding()(np.ones((2, 5, 3)))
    with pytest.raises(ValueError, match="`inputs` of shape"):
        ka.RotaryEmbedding()(np.ones((2, 4)))


def test_slopes_of_linear_biases_are_those_of_the_paper():
    np.testing.assert_allclose(ka.alibi_bias(8, 1, 2)[0, :, 0, 1], -(0.5 ** np.arange(1, 9)))
    slopes = -np.array(ka.alibi_bias(6, 1, 2))[0, :, 0, 1]  # 4 heads, then between those of 8
    np.testing.assert_allclose(slopes, [0.25, 0.0625, 2**-6, 2**-8, 0.5, 0.125], rtol=1e-6)
    slopes = -np.array(ka.alibi_bias(15, 1, 2))[0, :, 0, 1]  # 8 heads, then 7 of those of 16
    between = [2 ** (-n / 2) for n in range(1, 14, 2)]
    np.testing.assert_allclose(slopes, [*(0.5 ** np.arange(1, 9)), *between], rtol=1e-6)


def test_linear_biases_know_the_position_of_the_query():
    bias = np.array(ka.alibi_bias(2, 2, 5, position_offset=np.array([0, 3])))
    assert bias.shape == (2, 2, 2, 5)
    for row, head, query, key in np.ndindex(*bias.shape):
        distance = abs([0, 3][row] + query - key)
        assert bias[row, head, query, key] == -distance * [2.0**-4, 2.0**-8][head]


def test_linear_biases_under_a_cache_are_those_of_the_parallel_call():
    set_seed(1)
    layer = ka.MultiHeadAttention(2, 4)
    states = np.random.RandomState(1).randn(2, 5, 8).astype("float32")
    bias = ka.alibi_bias(2, 5, 5)
    expected = layer(states, states, use_causal_mask=True, attention_bias=bias)
    cache = layer.start_cache(2, 5)
    for step in range(5):
        position = np.full(2, step)
        cache = layer.extend_cache(cache, states[:, step], position)
        bias = ka.alibi_bias(2, 1, 5, position)[:, :, 0]
        context, _ = layer.attend(states[:, step], cache, position=position, attention_bias=bias)
        np.testing.assert_allclose(context, expected[:, step], atol=1e-5)


def test_halves_are_the_columns_of_neighbors_in_another_order():
    inputs = np.random.RandomState(2).randn(2, 3, 5, 6).astype("float32")
    order = [0, 2, 4, 1, 3, 5]  # pairs (0, 1), (2, 3), (4, 5) become (0, 3), (1, 4), (2, 5)
    position = np.array([0, 4])
    expected = np.array(ka.RotaryEmbedding()(inputs, position=position))[..., order]
    halves = ka.RotaryEmbedding(interleaved=False)
    found = np.array(halves(inputs[..., order], position=position))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert ka.RotaryEmbedding.from_config(halves.get_config()).interleaved is False
