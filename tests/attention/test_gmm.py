"""GMM attention: the formulas of both papers, means that move forward, and extremes."""

import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import GMMAttention

B, Q, S, DQ, DV, K = 2, 3, 7, 5, 11, 4
RANDOM = np.random.RandomState(1)
QUERY, VALUE = RANDOM.randn(B, Q, DQ), RANDOM.randn(B, S, DV)
VERSIONS = pytest.mark.parametrize("version", ["v0", "v1", "v2"])


def _layer(version="v2", num_mixtures=K, **options):
    set_seed(1)
    return GMMAttention(num_mixtures, version, dtype="float64", **options)


def _softplus(x):
    return np.log1p(np.exp(x))


def _parameters(projected, version):
    """Returns w / Z, d and s of table 1, each `(mixtures,)`."""
    w, d, s = np.split(projected, 3)
    if version == "v0":
        return np.exp(w), np.exp(d), np.sqrt(np.exp(-s) / 2)
    step, width = (np.exp, lambda s: np.sqrt(np.exp(s))) if version == "v1" else [_softplus] * 2
    return np.exp(w) / np.exp(w).sum() / np.sqrt(2 * np.pi * width(s) ** 2), step(d), width(s)


@VERSIONS
@pytest.mark.parametrize("units", [None, 13])
def test_weights_are_those_of_the_papers(version, units):
    layer = _layer(version, units=units, initial_step=0.7, initial_width=1.3)
    context, weights = layer(QUERY, VALUE, return_attention_scores=True)
    *hidden, kernel, bias = map(np.array, layer.weights)
    for b in range(B):
        means = np.zeros(K)
        for i in range(Q):
            query = QUERY[b, i]
            if hidden:
                query = np.tanh(query @ hidden[0] + hidden[1])
            amplitudes, steps, widths = _parameters(query @ kernel + bias, version)
            means = means + steps
            expected = [
                np.sum(amplitudes * np.exp(-((j - means) ** 2) / (2 * widths**2)))
                for j in range(1, S + 1)
            ]
            np.testing.assert_allclose(weights[b, i], expected, atol=1e-12)
            np.testing.assert_allclose(context[b, i], expected @ VALUE[b], atol=1e-12)


def test_two_steps_of_graves_by_hand():
    """All parameters e^0: one key a step, and exp(-(kappa - u)^2)."""
    weights = _layer("v0", 1)(np.zeros((1, 2, DQ)), VALUE[:1], return_attention_scores=True)[1]
    distances = np.abs(np.array([[1], [2]]) - np.arange(1, S + 1))
    expected = np.array([1, 0.36787944, 0.01831564, 1.2341e-4, 1e-7, 0, 0])[distances]
    np.testing.assert_allclose(weights[0], expected, atol=1e-6)


@VERSIONS
def test_biases_start_with_the_step_and_the_width(version):
    layer = _layer(version, 1, initial_step=2.0, initial_width=0.5)
    weights = np.array(layer(np.zeros((1, 3, DQ)), VALUE[:1], return_attention_scores=True)[1])[0]
    np.testing.assert_array_equal(weights.argmax(axis=-1), [1, 3, 5])  # keys 2, 4 and 6
    ratio = weights[0, 2] / weights[0, 1]
    assert ratio == pytest.approx(np.exp(-1 / (2 * 0.5**2)))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_normalized_mixtures_sum_to_one_inside_of_the_source(version):
    layer = _layer(version, initial_step=10.0, initial_width=2.0, kernel_initializer="zeros")
    weights = layer(QUERY, RANDOM.randn(B, 53, DV), return_attention_scores=True)[1]
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1, atol=1e-5)


@VERSIONS
@pytest.mark.parametrize("scale", [1e3, -1e3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_extreme_parameters_have_finite_weights_and_gradients(version, scale, dtype):
    layer = GMMAttention(K, version, dtype=dtype)
    query, value = tf.cast(QUERY * scale, dtype), tf.cast(VALUE, dtype)
    with tf.GradientTape() as tape:
        tape.watch(query)
        _, weights = layer(query, value, return_attention_scores=True)
        total = tf.reduce_sum(tf.cast(weights, "float32"))
    assert np.all(np.isfinite(tf.cast(weights, "float32"))) or version == "v0"
    assert np.all(np.isfinite(tf.cast(tape.gradient(total, query), "float32")))


def test_a_step_from_given_means():
    layer, means = _layer(initial_step=1.0, initial_width=1.0), RANDOM.rand(B, Q, K)
    layer.build(QUERY.shape, VALUE.shape)
    prepared = layer.prepare(tf.constant(VALUE))
    *_, state = layer.attend(QUERY, prepared, state={"means": means}, return_state=True)
    *_, start = layer.attend(QUERY, prepared, state={"means": 0 * means}, return_state=True)
    np.testing.assert_allclose(state["means"], start["means"] + means, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_mixtures": 0}, "`num_mixtures` to be a positive int"),
        ({"version": "v3"}, "`version`.*'v0', 'v1', 'v2'.*version='v3'"),
        ({"units": 0}, "`units` to be a positive int"),
        ({"initial_step": 0.0}, r"`initial_step` to be a number in \(0, inf\)"),
        ({"initial_width": -1.0}, r"`initial_width` to be a number in \(0, inf\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        GMMAttention(**{"num_mixtures": 2, **arguments})


def test_a_bias_on_the_scores_is_refused():
    with pytest.raises(
        ValueError, match="GMMAttention does not compute its scores.*attention_bias.shape"
    ):
        _layer()(QUERY, VALUE, attention_bias=np.zeros((B, Q, S)))
