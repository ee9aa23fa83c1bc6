"""Coverage scores: the paper's formula, its limits, and a loop that trains with them."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AdditiveScorer, Attention, AttentionRNN, CoverageScorer

B, Q, K, DQ, DK, U = 2, 3, 5, 7, 11, 13
RANDOM = np.random.RandomState(1)
QUERY, KEY = RANDOM.randn(B, Q, DQ), RANDOM.randn(B, K, DK)
COVERAGE = RANDOM.rand(B, Q, K)


def _scorer(**options):
    set_seed(1)
    scorer = CoverageScorer(U, dtype="float64", bias_initializer="normal", **options)
    scorer(QUERY, KEY, COVERAGE)
    return scorer


def test_scores_are_those_of_the_paper():
    scorer = _scorer()
    query_kernel, key_kernel, coverage_vector, vector, bias = map(np.array, scorer.weights)
    expected = np.empty((B, Q, K))
    for b, t, j in np.ndindex(B, Q, K):
        inside = key_kernel.T @ KEY[b, j] + query_kernel.T @ QUERY[b, t]
        inside = inside + coverage_vector[0] * COVERAGE[b, t, j] + bias
        expected[b, t, j] = vector[:, 0] @ np.tanh(inside)
    np.testing.assert_allclose(scorer(QUERY, KEY, COVERAGE), expected, rtol=0, atol=1e-12)


def test_a_query_of_rank_two_is_one_row():
    scorer = _scorer()
    rows = scorer(QUERY[:, 1], KEY, COVERAGE[:, 1])
    np.testing.assert_allclose(rows, np.array(scorer(QUERY, KEY, COVERAGE))[:, 1], atol=1e-12)


def test_without_weights_it_is_the_additive_scorer():
    scorer, plain = _scorer(), AdditiveScorer(U, dtype="float64")
    plain(QUERY, KEY)
    plain.set_weights([w for w in scorer.get_weights() if w.shape != (1, U)])
    for weights in (None, np.zeros((B, Q, K))):
        np.testing.assert_allclose(scorer(QUERY, KEY, weights), plain(QUERY, KEY), atol=1e-12)


def test_kernels_drawn_from_one_initializer_differ():
    initializer = keras.initializers.RandomNormal(seed=3)
    scorer = CoverageScorer(U, kernel_initializer=initializer)
    scorer.build((None, 1), (None, None, 1))
    kernels = [np.array(w) for w in scorer.weights[:3]]
    assert all(kernel.shape == (1, U) for kernel in kernels)
    assert len({kernel.tobytes() for kernel in kernels}) == 3


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"previous_weights.shape=\(2, 3, 2\)"):
        _scorer()(QUERY, KEY, COVERAGE[:, :, :2])


def test_a_source_that_was_read_can_be_left_alone():
    """With w_c along -v an equal key loses weight for each time it was read."""
    scorer = CoverageScorer(U, vector_initializer="ones", dtype="float64")
    attention = Attention(scorer, dtype="float64")
    attention.build((B, DQ), (B, K, DK))
    attention.scorer.coverage_vector.assign(-np.ones((1, U)))
    key, read = np.ones((B, K, DK)), np.zeros((B, K))
    read[:, 3] = 1.0
    _, weights = attention(QUERY[:, 0], key, previous_weights=read, return_attention_scores=True)
    assert np.all(np.argmin(weights, axis=-1) == 3)
    np.testing.assert_allclose(np.array(weights)[:, :3].std(axis=1), 0, atol=1e-12)


def test_gradients_equal_finite_differences():
    scorer = _scorer()
    upstream = np.random.RandomState(2).randn(B, Q, K)

    def loss(coverage):
        return tf.reduce_sum(scorer(QUERY, KEY, coverage) * upstream)

    variables = [tf.Variable(COVERAGE)]
    with tf.GradientTape() as tape:
        value = loss(variables[0])
    gradient = tape.gradient(value, variables[0]).numpy()
    for index in [(0, 0, 0), (1, 2, 4), (0, 1, 3)]:
        step = np.zeros_like(COVERAGE)
        step[index] = 1e-6
        difference = (loss(COVERAGE + step) - loss(COVERAGE - step)) / 2e-6
        np.testing.assert_allclose(gradient[index], difference, rtol=1e-6)


def test_a_recurrent_layer_shows_it_the_sum_of_all_earlier_weights():
    attention = Attention(CoverageScorer(U), dtype="float64")
    cell = keras.layers.GRUCell(DQ, dtype="float64")
    layer = AttentionRNN(cell, attention, attentional_units=0, dtype="float64")
    attention.scorer.vector_initializer = keras.initializers.Ones()  # weights far from uniform
    states, weights = layer(RANDOM.randn(B, Q, 2), KEY, return_attention_scores=True)
    weights = np.array(weights)
    earlier = np.cumsum(weights, axis=1) - weights
    expected = attention(states, KEY, previous_weights=earlier, return_attention_scores=True)[1]
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    unaware = attention(states, KEY, return_attention_scores=True)[1]
    assert np.abs(weights - unaware)[:, 1:].max() > 1e-3
