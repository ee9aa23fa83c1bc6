"""Dropout from a hashed counter: the share, the independence, the seeds."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import CounterDropout


def _draw_masks(rate, seed=1, shape=(64, 37, 53), calls=1):
    layer = CounterDropout(rate, seed=seed)
    return [np.array(layer(np.ones(shape, "float32"), training=True)) > 0 for _ in range(calls)]


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_share_kept_and_the_mean_are_right(rate):
    shape = (64, 37, 53)
    dropped = np.array(CounterDropout(rate, seed=3)(np.ones(shape, "float32"), training=True))
    deviation = np.sqrt(rate * (1 - rate) / dropped.size)
    assert abs((dropped > 0).mean() - (1 - rate)) < 4 * deviation
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / (1 - rate)], rtol=1e-6)


def test_neighbors_rows_calls_and_seeds_are_uncorrelated():
    first, second = _draw_masks(0.5, calls=2)
    (other,) = _draw_masks(0.5, seed=2)
    bound = 4 / np.sqrt(first.size)
    flat = first.ravel() - 0.5
    for lag in (1, 2, 3, 53, 37 * 53, 4096):
        assert abs(np.mean(flat[lag:] * flat[:-lag]) * 4) < bound, lag
    for draws in (second, other):
        assert abs(np.mean(flat * (draws.ravel() - 0.5)) * 4) < bound


def test_graph_xla_and_eager_draw_the_same_masks_in_turn():
    inputs = tf.ones((3, 5, 7))

    def draws(run):
        layer = CounterDropout(0.4, seed=11)
        function = run(lambda x: layer(x, training=True))
        return [np.array(function(inputs)) for _ in range(3)]

    eager = draws(lambda f: f)
    graph = draws(lambda f: tf.function(f, input_signature=[tf.TensorSpec([None, None, 7])]))
    xla = draws(lambda f: tf.function(f, jit_compile=True))
    for one, two, three in zip(eager, graph, xla, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    assert not np.array_equal(eager[0], eager[1])


def test_nothing_is_dropped_outside_training_and_masks_pass():
    layer = CounterDropout(0.5)
    inputs = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(np.array(layer(inputs)), inputs)
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(np.array([[1, 0]]))
    dropped = layer(embedded, training=True)
    assert np.array_equal(np.array(dropped._keras_mask), [[True, False]])


def test_half_precision_keeps_its_dtype():
    for dtype in ("float16", "bfloat16"):
        assert CounterDropout(0.5, dtype=dtype)(np.ones((2, 3)), training=True).dtype == dtype


def test_rate_must_lie_in_range():
    with pytest.raises(ValueError, match=r"`rate`.*\[0, 1\).*rate=1.0"):
        CounterDropout(1.0)
