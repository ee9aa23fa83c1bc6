"""Biases of T5: its buckets, its table, cached steps and saved models."""

import math

import keras
import numpy as np
import pytest
from seeds import set_seed

import keras_attention as ka
from keras_attention.attention.relative_position_bias import bucket_distances


def bucket_by_the_definition(ahead, buckets, max_distance, bidirectional):
    """One relative position at a time, in exact arithmetic of powers instead of logarithms."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if ahead > 0 else 0
        distance = abs(ahead)
    else:
        distance = max(-ahead, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    far = exact
    # (d / exact) ** (buckets - exact) >= (max / exact) ** steps
    while far < buckets - 1 and distance ** (buckets - exact) * exact ** (
        far + 1 - exact
    ) >= max_distance ** (far + 1 - exact) * exact ** (buckets - exact):
        far += 1
    return first + far


def test_buckets_of_the_paper():
    """32 buckets, 128 positions: 16 of each side, 8 of one distance, then 8 to 128 in 8 steps."""
    found = bucket_distances(16, 128)
    assert found[:9].tolist() == list(range(9))
    starts = [int(np.argmax(found == bucket)) for bucket in range(8, 16)]
    assert starts == [math.ceil(8 * 16 ** (n / 8) - 1e-9) for n in range(8)]
    assert starts == [8, 12, 16, 23, 32, 46, 64, 91]
    assert found[-1] == 15


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 5), (4, 2), (10, 37)])
def test_each_bias_is_that_of_its_bucket(buckets, max_distance, bidirectional):
    if not bidirectional:
        max_distance += buckets // 2
    layer = ka.RelativePositionBias(3, buckets, max_distance, bidirectional)
    queries, keys = np.zeros((2, 47, 1)), np.zeros((2, 53, 4))
    bias = np.array(layer(queries, keys))
    table = np.array(layer.biases)
    assert bias.shape == (1, 3, 47, 53)
    for query in range(0, 47, 3):
        for key in range(53):
            place = bucket_by_the_definition(key - query, buckets, max_distance, bidirectional)
            np.testing.assert_array_equal(bias[0, :, query, key], table[place])


def test_positions_of_queries_may_be_given():
    layer = ka.RelativePositionBias(2, 8, 11)
    whole = np.array(layer(np.zeros((2, 7, 1)), np.zeros((2, 7, 1))))[0]
    first = np.array([0, 3])
    part = np.array(layer(np.zeros((2, 4, 1)), np.zeros((2, 7, 1)), position_offset=first))
    assert part.shape == (2, 2, 4, 7)
    np.testing.assert_array_equal(part, np.stack([whole[:, n : n + 4] for n in first]))
    each = np.array([[6, 0], [1, 5]])
    part = np.array(layer(np.zeros((2, 2, 1)), np.zeros((2, 7, 1)), position_offset=each))
    np.testing.assert_array_equal(part, np.stack([whole[:, row] for row in each]))


def test_cached_steps_equal_the_parallel_call():
    set_seed(1)
    attention, bias = ka.MultiHeadAttention(2, 4), ka.RelativePositionBias(2, 4, 3, False)
    states = np.random.RandomState(1).randn(2, 5, 8).astype("float32")
    expected = attention(states, states, use_causal_mask=True, attention_bias=bias(states, states))
    cache = attention.start_cache(2, 5)
    for step in range(5):
        position = np.full(2, step)
        cache = attention.extend_cache(cache, states[:, step], position)
        row = bias(states[:, step : step + 1], states, position_offset=position)[:, :, 0]
        context, _ = attention.attend(states[:, step], cache, position=position, attention_bias=row)
        np.testing.assert_allclose(context, expected[:, step], atol=1e-5)


@pytest.mark.thorough
def test_it_learns_what_only_positions_tell_and_survives_a_file(tmp_path):
    """Each output is the input before it; queries and keys are equal vectors."""
    set_seed(2)
    same, values = keras.Input((None, 2)), keras.Input((None, 3))
    layer = ka.RelativePositionBias(1, 8, 9)
    attention = ka.MultiHeadAttention(1, 3, output_dim=3)
    outputs = attention(same, values, attention_bias=layer(same, same))
    model = keras.Model([same, values], outputs)
    model.compile(keras.optimizers.Adam(0.1), "mse")
    x = np.random.RandomState(3).randn(64, 7, 3).astype("float32")
    targets, weights = np.roll(x, 1, axis=1), np.ones((64, 7))
    weights[:, 0] = 0
    inputs = [np.ones((64, 7, 2), "float32"), x]
    model.fit(inputs, targets, sample_weight=weights, epochs=60, batch_size=64, verbose=0)
    assert np.mean((np.array(model(inputs)) - targets)[:, 1:] ** 2) < 0.1
    assert np.argmax(layer.biases) == 1  # one position behind
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(model(inputs), again(inputs), rtol=1e-6)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="expects an even `num_buckets`"):
        ka.RelativePositionBias(2, 9)
    with pytest.raises(ValueError, match="`max_distance`"):
        ka.RelativePositionBias(2, 32, 8)
    with pytest.raises(ValueError, match="`num_buckets`"):
        ka.RelativePositionBias(2, 2)
    with pytest.raises(ValueError, match="`key` of shape"):
        ka.RelativePositionBias(2)(np.zeros((2, 3)), np.zeros(2))
