"""Location-sensitive scores: the paper's formula, the ends of a source, a loop under XLA."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AdditiveScorer, Attention, AttentionRNN, LocationSensitiveScorer
from keras_attention._utils.loop import run_loop
from keras_attention.scorers.location_sensitive import location_features

B, Q, K, DQ, DK, U, F, SIZE = 2, 3, 7, 5, 11, 13, 4, 3
RANDOM = np.random.RandomState(1)
QUERY, KEY = RANDOM.randn(B, Q, DQ), RANDOM.randn(B, K, DK)
WEIGHTS = RANDOM.rand(B, Q, K)


def _scorer(size=SIZE, **options):
    set_seed(1)
    options = {"dtype": "float64", "bias_initializer": "normal", **options}
    scorer = LocationSensitiveScorer(U, F, size, **options)
    scorer(QUERY, KEY, WEIGHTS)
    return scorer


@pytest.mark.parametrize("size", [1, 3, 5, 17])
def test_scores_are_those_of_the_paper(size):
    scorer = _scorer(size)
    query_kernel, key_kernel, windows, location, vector, bias = map(np.array, scorer.weights)
    half, expected = size // 2, np.empty((B, Q, K))
    for b, i, j in np.ndindex(B, Q, K):
        features = np.zeros(F)
        for offset in range(-half, half + 1):
            if 0 <= j + offset < K:
                features += windows[offset + half] * WEIGHTS[b, i, j + offset]
        inside = query_kernel.T @ QUERY[b, i] + key_kernel.T @ KEY[b, j] + location.T @ features
        expected[b, i, j] = vector[:, 0] @ np.tanh(inside + bias)
    np.testing.assert_allclose(scorer(QUERY, KEY, WEIGHTS), expected, rtol=0, atol=1e-12)


def test_features_at_the_middle_and_at_the_ends():
    weights = np.array([[[0.5, 0.2, 0.3]]])
    kernel = np.array([[1.0, 0.0], [10.0, 0.0], [100.0, 1.0]])  # left, here, right
    expected = [[25.0, 0.2], [32.5, 0.3], [3.2, 0.0]]
    np.testing.assert_allclose(location_features(weights, kernel)[0, 0], expected, atol=1e-12)


def test_without_weights_it_is_the_additive_scorer():
    scorer, plain = _scorer(), AdditiveScorer(U, dtype="float64")
    plain(QUERY, KEY)
    plain.set_weights([w for w in scorer.get_weights() if w.shape not in ((SIZE, F), (F, U))])
    for weights in (None, np.zeros((B, Q, K))):
        np.testing.assert_allclose(scorer(QUERY, KEY, weights), plain(QUERY, KEY), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_scores_have_its_dtype(dtype):
    scorer = _scorer(dtype=dtype, vector_initializer="ones")
    scores = scorer(QUERY, KEY, WEIGHTS)
    assert keras.backend.standardize_dtype(scores.dtype) == dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 2, 4), "odd `kernel_size`"),
        ((4, 0, 3), "`filters` to be a positive int"),
        ((4, 2, 0), "`kernel_size` to be a positive int"),
        ((0, 2, 3), "`units` to be a positive int"),
    ],
)
def test_bad_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocationSensitiveScorer(*arguments)


@pytest.mark.thorough
def test_it_trains_in_a_compiled_loop_of_unknown_sizes():
    """The gradient of a convolution asks for its sizes; in a loop they must stay constants."""
    scorer = LocationSensitiveScorer(U, F, SIZE)
    scorer.build((None, DQ), (None, None, DK))

    def gradients(queries, key):
        def step(query, states):
            scores = scorer.score(query[:, None], prepared, states[0][:, None])
            weights = keras.ops.softmax(scores[:, 0])
            return weights, [weights]

        with tf.GradientTape() as tape:
            prepared = scorer.prepare(key)
            weights, _ = run_loop(step, queries, [tf.zeros(tf.shape(key)[:2])])
            total = tf.reduce_sum(weights**2)
        return tape.gradient(total, scorer.trainable_variables)

    specs = [tf.TensorSpec([None, None, DQ]), tf.TensorSpec([None, None, DK])]
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    for batch, key in ((2, KEY), (1, KEY[:1, :5])):
        queries = tf.constant(QUERY[:batch], "float32")
        key = tf.constant(key, "float32")
        pairs = zip(compiled(queries, key), gradients(queries, key), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_recurrent_layer_shows_it_the_weights_of_the_step_before():
    attention = Attention(LocationSensitiveScorer(U, F, SIZE), dtype="float64")
    cell = keras.layers.GRUCell(DQ, dtype="float64")
    layer = AttentionRNN(cell, attention, attentional_units=0, dtype="float64")
    attention.scorer.vector_initializer = keras.initializers.Ones()  # weights far from uniform
    states, weights = layer(RANDOM.randn(B, Q, 2), KEY, return_attention_scores=True)
    weights = np.array(weights)
    earlier = np.pad(weights, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    expected = attention(states, KEY, previous_weights=earlier, return_attention_scores=True)[1]
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    unaware = attention(states, KEY, return_attention_scores=True)[1]
    assert np.abs(weights - unaware)[:, 1:].max() > 1e-3
