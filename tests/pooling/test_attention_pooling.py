"""Attention pooling: the paper's sum by hand, gradients, limits, bad input."""

import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AttentionPooling, Normalizer

B, T, D, UNITS = 3, 7, 5, 11
INPUTS = np.random.RandomState(1).randn(B, T, D)
MASK = np.arange(T) < np.array([[7], [3], [0]])


def _make_pooling(**options):
    set_seed(1)
    pooling = AttentionPooling(UNITS, dtype="float64", **options)
    pooling.build((B, T, D))
    pooling.set_weights(
        [np.random.RandomState(i).randn(*w.shape) for i, w in enumerate(pooling.weights)]
    )
    return pooling


def _by_hand(pooling, row, length):
    """Equations 5 to 7 of Yang et al. for one row of the batch."""
    kernel, bias, vector = (np.array(w) for w in pooling.weights)
    scores = []
    for t in range(length):
        u = np.tanh(kernel.T @ INPUTS[row, t] + bias)
        scores.append(u @ vector[:, 0])
    weights = np.exp(scores) / np.sum(np.exp(scores))
    return sum(a * h for a, h in zip(weights, INPUTS[row], strict=False)), weights


def test_it_is_the_papers_sum_over_h():
    pooling = _make_pooling()
    pooled, weights = pooling(INPUTS, mask=MASK, return_attention_scores=True)
    for row, length in enumerate((7, 3)):
        vector, expected = _by_hand(pooling, row, length)
        np.testing.assert_allclose(np.array(pooled)[row], vector, atol=1e-12)
        np.testing.assert_allclose(np.array(weights)[row, :length], expected, atol=1e-12)
        assert np.all(np.array(weights)[row, length:] == 0)
    assert np.all(np.array(pooled)[2] == 0) and np.all(np.array(weights)[2] == 0)


def test_gradients_agree_with_differences():
    pooling = _make_pooling()
    inputs = tf.Variable(INPUTS)
    assert_gradients_are_right(
        lambda: pooling(tf.convert_to_tensor(inputs), mask=MASK), [*pooling.weights, inputs]
    )


def test_a_vector_of_zeros_gives_the_mean_over_kept_positions():
    pooling = AttentionPooling(UNITS, vector_initializer="zeros", dtype="float64")
    pooled = np.array(pooling(INPUTS, mask=MASK))
    np.testing.assert_allclose(pooled[0], INPUTS[0].mean(0), atol=1e-12)
    np.testing.assert_allclose(pooled[1], INPUTS[1, :3].mean(0), atol=1e-12)


def test_permuting_positions_permutes_weights_and_keeps_the_sum():
    pooling, order = _make_pooling(), np.random.RandomState(3).permutation(T)
    pooled, weights = pooling(INPUTS, return_attention_scores=True)
    moved, moved_weights = pooling(INPUTS[:, order], return_attention_scores=True)
    np.testing.assert_allclose(np.array(moved), np.array(pooled), atol=1e-12)
    np.testing.assert_allclose(np.array(moved_weights), np.array(weights)[:, order], atol=1e-12)


class First(Normalizer):
    """Puts all weight on the first position."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return keras.ops.one_hot(keras.ops.zeros_like(scores[:, 0], dtype="int32"), scores.shape[1])


def test_any_normalizer_goes_in():
    pooled = AttentionPooling(UNITS, First(dtype="float64"), dtype="float64")(INPUTS)
    np.testing.assert_allclose(np.array(pooled), INPUTS[:, 0], atol=1e-12)


def test_without_a_bias_there_are_two_weights():
    pooling = AttentionPooling(UNITS, use_bias=False)
    pooling.build((None, None, D))
    assert [tuple(w.shape) for w in pooling.weights] == [(D, UNITS), (UNITS, 1)]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: AttentionPooling(0), "AttentionPooling.*`units`.*Received: units=0"),
        (lambda: AttentionPooling(3, "sofmax"), "`Normalizer` object or one of"),
        (lambda: AttentionPooling(3)(INPUTS[0]), r"\(batch, time, dim\).*shape=\(7, 5\)"),
        (lambda: AttentionPooling(3)(INPUTS[None]), r"\(batch, time, dim\)"),
        (
            lambda: AttentionPooling(3)(INPUTS, mask=MASK[:, :4]),
            r"`mask` of shape \(batch, time\), here \(3, 7\).*\(3, 4\)",
        ),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
