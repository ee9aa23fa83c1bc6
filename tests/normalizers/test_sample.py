"""Drawn keys: how often which, and the log-probability and entropy that REINFORCE needs."""

import numpy as np
import pytest
from normalizer_checks import gradient_by_differences, gradient_of, scores_and_mask
from tf_or_skip import tf

from keras_attention import SampleNormalizer
from keras_attention.normalizers import sample


def softmax(scores, mask):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    return powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-9)


def test_keys_are_drawn_as_often_as_the_softmax_says():
    scores = np.array([0.0, 1.0, -1.0, 2.0, 0.5, 9.0], "float32")
    mask = np.array([True, True, True, True, True, False])
    draws = 100_003
    layer = SampleNormalizer(seed=5)
    weights = np.array(layer(np.tile(scores, (draws, 1)), mask=mask, training=True))
    expected = draws * softmax(scores, mask)[mask]
    counts = weights.sum(axis=0)
    assert counts[-1] == 0
    # Chi square with 4 degrees of freedom exceeds 18.5 once in 1000 times.
    assert np.sum((counts[mask] - expected) ** 2 / expected) < 18.5


def test_rows_are_drawn_independently():
    weights = np.array(SampleNormalizer(seed=5)(np.zeros((20_011, 2)), training=True))[:, 0]
    together = np.mean(weights[1:] * weights[:-1])
    assert together == pytest.approx(0.25, abs=0.01)


def test_evaluation_takes_the_best_unless_asked_to_draw():
    scores = np.tile([0.0, 0.1], (101, 1))
    np.testing.assert_array_equal(SampleNormalizer(seed=1)(scores), np.tile([0, 1], (101, 1)))
    drawn = np.array(SampleNormalizer("sample", seed=1)(scores))
    assert 20 < drawn[:, 0].sum() < 80


def test_the_log_probability_is_that_of_the_drawn_key():
    scores, mask = scores_and_mask()
    weights = SampleNormalizer(seed=3, dtype="float64")(scores, mask=mask, training=True)
    found = np.array(SampleNormalizer.log_prob(scores, weights, mask))
    assert found.shape == scores.shape[:-1]
    shares = np.sum(softmax(scores, mask) * np.array(weights), axis=-1)
    kept = mask.any(axis=-1)
    np.testing.assert_allclose(found[kept], np.log(shares[kept]), atol=1e-12)
    assert np.all(found[~kept] == 0)


def test_the_gradient_of_the_log_probability_is_draw_minus_share():
    scores, mask = scores_and_mask()
    weights = np.array(SampleNormalizer(seed=3)(scores, mask=mask, training=True))
    found = gradient_of(lambda s: sample.log_prob(s, weights, mask), scores, 1.0)
    kept = mask.any(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, (weights - softmax(scores, mask)) * kept, atol=1e-12)


def test_entropies_by_hand():
    """The two rows of SPEC 23, and rows of one key and of none."""
    rows = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    mask = np.array([[True] * 3, [True] * 3, [False, True, False], [False] * 3])
    found = SampleNormalizer.entropy(np.log(rows), mask)
    np.testing.assert_allclose(found, [1.029653, 0.897946, 0, 0], atol=5e-7)
    np.testing.assert_allclose(sample.entropy(np.log(rows[:2])), found[:2], atol=1e-12)


def test_the_gradient_of_the_entropy_equals_finite_differences():
    scores, mask = scores_and_mask(shape=(2, 3, 5))
    upstream = np.random.RandomState(2).randn(2, 3)

    def entropy(scores):
        return sample.entropy(scores, mask)

    found = gradient_of(entropy, scores, upstream)
    expected = gradient_by_differences(entropy, scores, upstream)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_log_probability_and_entropy_are_float32_and_finite(dtype, scale):
    scores, mask = scores_and_mask()
    weights = SampleNormalizer(seed=1, dtype=dtype)(scores * scale, mask=mask, training=True)
    scores = tf.cast(np.where(mask, scores * scale, np.nan), dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        results = sample.log_prob(scores, weights, mask), sample.entropy(scores, mask)
        total = tf.reduce_sum(tf.stack(results))
    assert all(result.dtype == "float32" for result in results)
    assert np.all(np.isfinite(results))
    assert np.all(np.isfinite(np.array(tape.gradient(total, scores), "float32")))


def test_inference_must_be_a_known_word():
    with pytest.raises(
        ValueError, match="`inference_mode`.*'argmax', 'sample'.*inference_mode='mean'"
    ):
        SampleNormalizer("mean")
