"""Dynamic convolution scores: the paper's formula, the prior, and attention that moves forward."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import Attention, AttentionRNN, DynamicConvolutionScorer, LocalAttention
from keras_attention.scorers.dynamic_convolution import beta_binomial, log_prior

B, Q, K, DQ, DK, U, STATIC, DYNAMIC, SIZE, PRIOR = 2, 3, 7, 5, 11, 13, 4, 2, 3, 4
RANDOM = np.random.RandomState(1)
QUERY, KEY = RANDOM.randn(B, Q, DQ), RANDOM.randn(B, K, DK)
WEIGHTS = RANDOM.dirichlet(np.ones(K), size=(B, Q))


def _scorer(size=SIZE, **options):
    set_seed(1)
    options = {"dtype": "float64", "bias_initializer": "normal", **options}
    scorer = DynamicConvolutionScorer(U, STATIC, DYNAMIC, size, PRIOR, **options)
    scorer(QUERY, KEY, WEIGHTS)
    return scorer


def _correlate(weights, filters):
    """Returns `(key, filters)`: each filter `(size, filters)` around every key, zeros beyond."""
    half = len(filters) // 2
    padded = np.pad(weights, half)
    return np.array([padded[j : j + len(filters)] @ filters for j in range(len(weights))])


@pytest.mark.parametrize("size", [1, 3, 17])
def test_scores_are_those_of_the_paper(size):
    scorer, expected = _scorer(size), np.empty((B, Q, K))
    weight = {one.name: np.array(one) for one in scorer.weights}
    taps = beta_binomial(PRIOR, 0.1, 0.9)
    for b, i in np.ndindex(B, Q):
        hidden = np.tanh(weight["generator_kernel"].T @ QUERY[b, i] + weight["generator_bias"])
        filters = (weight["generator_filters"].T @ hidden).reshape(size, DYNAMIC)
        inside = _correlate(WEIGHTS[b, i], weight["filter_kernel"]) @ weight["static_kernel"]
        inside = inside + _correlate(WEIGHTS[b, i], filters) @ weight["dynamic_kernel"]
        moved = np.convolve(WEIGHTS[b, i], taps)[:K]
        scores = np.tanh(inside + weight["bias"]) @ weight["vector"][:, 0]
        expected[b, i] = scores + np.log(np.maximum(moved, 1e-6))
    np.testing.assert_allclose(scorer(QUERY, KEY, WEIGHTS), expected, rtol=0, atol=1e-12)


def test_the_prior_of_the_paper_moves_one_key_on_average():
    taps = beta_binomial(11, 0.1, 0.9)
    np.testing.assert_allclose([np.sum(taps), np.arange(11) @ taps], 1, atol=1e-12)
    # Two draws: B(a, b) = G(a) G(b) / G(a + b), so P_0 = b (b + 1) / 2, P_1 = 2 a b / 2.
    np.testing.assert_allclose(beta_binomial(3, 0.1, 0.9), [0.855, 0.09, 0.055], atol=1e-12)


def test_the_log_of_the_prior_by_hand():
    """Weights 1/4 and 3/4 on keys 1 and 2, moves of 0 or 1 key; at least 1e-6 elsewhere."""
    moved = log_prior(np.array([[[0.0, 0.25, 0.75, 0.0, 0.0]]]), [0.8, 0.2])[0, 0]
    np.testing.assert_allclose(np.exp(moved), [1e-6, 0.2, 0.65, 0.15, 1e-6], atol=1e-12)


def test_without_weights_all_weight_is_on_the_first_key():
    first = np.broadcast_to(np.eye(K)[0], (B, Q, K))
    np.testing.assert_array_equal(_scorer()(QUERY, KEY), _scorer()(QUERY, KEY, first))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_scores_have_its_dtype_and_stay_near(dtype):
    scorer, wide = _scorer(dtype=dtype), _scorer()
    wide.set_weights([tf.cast(one, "float64") for one in scorer.weights])
    scores, expected = scorer(QUERY, KEY, WEIGHTS), wide(QUERY, KEY, WEIGHTS)
    assert keras.backend.standardize_dtype(scores.dtype) == dtype
    np.testing.assert_allclose(tf.cast(scores, "float64"), expected, atol=0.1)


def test_a_recurrent_layer_moves_forward_over_a_source_of_any_length():
    """With the prior alone, each step moves by the prior: expected positions 0, 1, 2, ..."""
    scorer = DynamicConvolutionScorer(U, vector_initializer="zeros", dtype="float64")
    cell = keras.layers.GRUCell(DQ, dtype="float64")
    layer = AttentionRNN(cell, Attention(scorer, dtype="float64"), dtype="float64")
    weights = layer(RANDOM.randn(B, Q, 2), RANDOM.randn(B, 31, DK), return_attention_scores=True)[1]
    taps, expected = beta_binomial(11, 0.1, 0.9), np.eye(31)[0]
    for step in range(Q):
        expected = np.maximum(np.convolve(expected, taps)[:31], 1e-6)
        expected = expected / expected.sum()
        np.testing.assert_allclose(weights[1, step], expected, atol=1e-9)
    assert expected @ np.arange(31) == pytest.approx(Q, abs=2e-3)


def test_local_attention_scores_all_keys():
    layer = LocalAttention(3, scorer=_scorer(), dtype="float64")
    weights = layer(QUERY, KEY, previous_weights=WEIGHTS, return_attention_scores=True)[1]
    scores = np.array(_scorer()(QUERY, KEY, WEIGHTS))[0, 1, :3]
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(weights[0, 1], [*expected, *[0] * (K - 3)], atol=1e-12)


@pytest.mark.thorough
def test_it_trains_in_a_compiled_loop_of_unknown_sizes():
    scorer = DynamicConvolutionScorer(U, STATIC, DYNAMIC, SIZE, PRIOR)
    cell = keras.layers.GRUCell(DQ)
    layer = AttentionRNN(cell, Attention(scorer), order="bahdanau")
    layer.build((None, None, 2), (None, None, DK))

    def gradients(inputs, memory):
        with tf.GradientTape() as tape:
            outputs = layer(inputs, memory)
            total = tf.reduce_sum(outputs**2)
        return tape.gradient(total, layer.trainable_variables)

    specs = [tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, None, DK])]
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    inputs, memory = RANDOM.randn(B, Q, 2).astype("float32"), KEY.astype("float32")
    for one, other in zip(compiled(inputs, memory), gradients(inputs, memory), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` to be a positive int"),
        ({"static_filters": 0}, "`static_filters` to be a positive int"),
        ({"dynamic_filters": 0}, "`dynamic_filters` to be a positive int"),
        ({"kernel_size": 4}, "odd `kernel_size`"),
        ({"prior_length": 0}, "`prior_length` to be a positive int"),
        ({"prior_alpha": 0.0}, r"`prior_alpha` to be a number in \(0, inf\)"),
        ({"prior_beta": -1.0}, r"`prior_beta` to be a number in \(0, inf\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DynamicConvolutionScorer(**{"units": 4, **arguments})


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="previous_weights"):
        _scorer()(QUERY, KEY, WEIGHTS[:, :, 1:])
