"""The random numbers of sampling: known answers, uniformity, independence."""

import numpy as np
import pytest
from keras import ops
from tf_or_skip import tf

from keras_attention.search import _stateless_random

BINS = 16
# By degrees of freedom: one of 10,000 draws from a chi-squared distribution is larger.
LARGEST = {15: 44.26, 225: 312.6}

# Known answers of Threefry-2x32-20 from Random123's kat_vectors: key, counter, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def words(*values):
    return tuple(ops.convert_to_tensor(np.array([value], "uint32")) for value in values)


@pytest.mark.parametrize("key, counter, expected", KNOWN)
def test_threefry_gives_the_known_answers(key, counter, expected):
    found = _stateless_random.threefry(words(*key), words(*counter))
    assert tuple(int(word[0]) for word in found) == expected


def noise(seeds, steps, tokens):
    """Returns Gumbel noise `(steps, seeds, tokens)`."""
    seeds = ops.convert_to_tensor(np.asarray(seeds, "uint32"))
    ids = ops.convert_to_tensor(np.arange(tokens, dtype="int32")[None])
    keys = [
        _stateless_random.derive_keys((seeds, ops.zeros_like(seeds)), time) for time in range(steps)
    ]
    return np.stack(
        [ops.convert_to_numpy(_stateless_random.gumbel_noise(key, ids)) for key in keys]
    )


@pytest.fixture(scope="module")
def uniform():
    """Numbers `(steps, seeds, tokens)` for neighboring seeds: the Gumbel transform undone."""
    return np.exp(-np.exp(-noise(np.arange(211), 23, 101).astype("float64")))


def chi_squared(counts):
    counts = np.asarray(counts, "float64").ravel()
    return (((counts - counts.mean()) ** 2) / counts.mean()).sum()


def test_numbers_are_uniform(uniform):
    counts, _ = np.histogram(uniform, bins=BINS, range=(0, 1))
    assert counts.sum() == uniform.size
    assert chi_squared(counts) < LARGEST[15]


NEIGHBORS = {
    "steps": lambda x: (x[:-1], x[1:]),
    "seeds": lambda x: (x[:, :-1], x[:, 1:]),
    "tokens": lambda x: (x[:, :, :-1], x[:, :, 1:]),
    "next seed at the step before": lambda x: (x[1:, :-1], x[:-1, 1:]),
    "next token at the step before": lambda x: (x[1:, :, :-1], x[:-1, :, 1:]),
    "next token of the seed before": lambda x: (x[:, 1:, :-1], x[:, :-1, 1:]),
}


@pytest.mark.parametrize("name", list(NEIGHBORS))
def test_neighbors_are_independent(uniform, name):
    one, other = (values.ravel() for values in NEIGHBORS[name](uniform))
    counts, _, _ = np.histogram2d(one, other, bins=BINS, range=[(0, 1)] * 2)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() < LARGEST[225]
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(len(one))


def test_each_token_seed_and_step_is_uniform_by_itself(uniform):
    # Of 335 means none is further off than five standard errors.
    for axis in range(3):
        means = np.moveaxis(uniform, axis, 0).reshape(uniform.shape[axis], -1)
        error = np.sqrt(1 / 12 / means.shape[1])
        assert np.abs(means.mean(axis=1) - 0.5).max() < 5 * error


def test_noise_has_the_moments_of_a_gumbel_distribution(uniform):
    gumbel_noise = -np.log(-np.log(uniform))
    np.testing.assert_allclose(gumbel_noise.mean(), np.euler_gamma, atol=0.01)
    np.testing.assert_allclose(gumbel_noise.var(), np.pi**2 / 6, rtol=0.01)


def test_both_words_of_a_seed_and_negative_seeds_count():
    seeds = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [2**31, 0], [2**32 - 1, 0]], "uint32")
    first, second = (ops.convert_to_tensor(seeds[:, i]) for i in (0, 1))
    found = _stateless_random.gumbel_noise(
        _stateless_random.derive_keys((first, second), 3), ops.zeros((1, 1), dtype="int32")
    )
    assert len(np.unique(ops.convert_to_numpy(found))) == len(seeds)


def test_noise_is_the_same_in_a_graph_and_under_xla():
    def body(seeds, time):
        keys = _stateless_random.derive_keys((seeds, seeds), time)
        return _stateless_random.gumbel_noise(keys, tf.range(101)[None])

    seeds, time = tf.constant([7, 2**32 - 5, 0], tf.uint32), tf.constant(11)
    eager = body(seeds, time)
    for jit_compile in (False, True):
        found = tf.function(body, autograph=False, jit_compile=jit_compile)(seeds, time)
        np.testing.assert_allclose(found, eager, rtol=1e-5, atol=1e-5)
