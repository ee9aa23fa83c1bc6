"""Noise from a hashed counter: the distributions, the independence, the seeds."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention._utils import counter_random

SHAPE = (61, 37, 53)
DRAWS = pytest.mark.parametrize(
    "draw", [counter_random.uniform, counter_random.gumbel, counter_random.normal]
)


def _draw_values(draw, seed=1, shape=SHAPE):
    return np.array(draw(shape, keras.random.SeedGenerator(seed)))


def test_the_hash_flips_half_of_the_bits():
    values = np.random.RandomState(0).randint(0, 2**32, 5000, dtype=np.uint64).astype(np.uint32)
    before = np.array(counter_random.hash_bits(values)).astype("uint32")
    for bit in range(32):
        after = np.array(counter_random.hash_bits(values ^ np.uint32(1 << bit))).astype("uint32")
        flipped = np.unpackbits((before ^ after).view(np.uint8)).mean()
        assert 0.47 < flipped < 0.53, bit


def _normal_below(x):
    return 0.5 * (1 + np.array(tf.math.erf(x / np.sqrt(2.0))))


@pytest.mark.parametrize(
    ("draw", "below"),
    [
        (counter_random.uniform, lambda x: x),
        (counter_random.gumbel, lambda x: np.exp(-np.exp(-x))),
        (counter_random.normal, _normal_below),
    ],
)
def test_the_distribution_is_the_one_named(draw, below):
    values = np.sort(_draw_values(draw).ravel()).astype("float64")
    shares = (np.arange(values.size) + 0.5) / values.size
    # Kolmogorov and Smirnov: the largest distance exceeds 1.95 / sqrt(n) once in 1000 draws.
    assert np.abs(below(values) - shares).max() < 1.95 / np.sqrt(values.size)


@DRAWS
def test_neighbors_and_seeds_are_uncorrelated(draw):
    values = _draw_values(draw).ravel().astype("float64")
    other = _draw_values(draw, seed=2).ravel().astype("float64")
    centered, bound = values - values.mean(), 4 / np.sqrt(values.size)
    for lag in (1, 2, 53, 37 * 53, 4096):
        assert abs(np.mean(centered[lag:] * centered[:-lag])) < bound * values.var(), lag
    assert abs(np.mean(centered * (other - other.mean()))) < bound * values.var()


def test_the_ends_of_the_interval_are_left_out():
    """All bits 0 and all bits 1 still have finite logarithms."""
    values = (
        np.array([0, 2**counter_random.UNIFORM_BITS - 1], "float32") + 0.5
    ) * 2.0**-counter_random.UNIFORM_BITS
    assert values.dtype == "float32"
    assert 0 < values[0] < values[1] < 1
    assert np.isfinite(np.log(-np.log(values))).all()


@DRAWS
def test_graph_xla_and_eager_draw_the_same_numbers_in_turn(draw):
    def draws(run):
        generator = keras.random.SeedGenerator(11)
        function = run(lambda sizes: draw((sizes[0], 7, sizes[1]), generator))
        return [np.array(function((3, 5))) for _ in range(2)]

    eager = draws(lambda f: f)
    graph = draws(tf.function)
    xla = draws(lambda f: tf.function(f, jit_compile=True))
    for one, two, three in zip(eager, graph, xla, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
        np.testing.assert_allclose(one, three, atol=1e-5)
    assert not np.array_equal(eager[0], eager[1])


def test_unknown_sizes_may_be_tensors():
    generator = keras.random.SeedGenerator(3)

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def run(like):
        return counter_random.gumbel(keras.ops.shape(like), generator)

    assert run(tf.zeros((2, 5))).shape == (2, 5)
