"""Gumbel-softmax: the distribution, the straight-through gradient, the limits."""

import numpy as np
import pytest
from normalizer_checks import gradient_of, scores_and_mask

from keras_attention import GumbelSoftmaxNormalizer, SoftmaxNormalizer

FLOAT64 = {"dtype": "float64"}


def test_weights_are_those_of_equation_two():
    scores, _ = scores_and_mask()
    uniform = np.random.RandomState(1).uniform(size=scores.shape)
    noise = -np.log(-np.log(uniform))
    weights = GumbelSoftmaxNormalizer(0.4, **FLOAT64)(scores, noise=noise)
    for index in np.ndindex(scores.shape[:-1]):
        powers = [np.exp((s + g) / 0.4) for s, g in zip(scores[index], noise[index], strict=True)]
        np.testing.assert_allclose(weights[index], powers / np.sum(powers), atol=1e-12)


def test_the_best_key_is_drawn_as_often_as_the_softmax_says():
    scores = np.array([0.0, 1.0, -1.0, 0.5], "float32")
    layer = GumbelSoftmaxNormalizer(straight_through=True, seed=4)
    counts = np.array(layer(np.tile(scores, (50_021, 1)), training=True)).sum(axis=0)
    expected = 50_021 * np.exp(scores) / np.exp(scores).sum()
    # Chi square with 3 degrees of freedom exceeds 16.3 once in 1000 times.
    assert np.sum((counts - expected) ** 2 / expected) < 16.3


def test_straight_through_weights_are_one_hot_with_the_gradient_of_the_soft_ones():
    scores, mask = scores_and_mask()
    noise, upstream = np.random.RandomState(2).randn(2, *scores.shape)
    soft = GumbelSoftmaxNormalizer(0.7, **FLOAT64)
    hard = GumbelSoftmaxNormalizer(0.7, straight_through=True, **FLOAT64)
    weights = np.array(hard(scores, mask=mask, noise=noise))
    assert set(np.unique(weights)) == {0.0, 1.0}
    best = np.array(soft(scores, mask=mask, noise=noise)).argmax(axis=-1)
    kept = mask.any(axis=-1)
    np.testing.assert_array_equal(weights.argmax(axis=-1)[kept], best[kept])
    one, other = (
        gradient_of(lambda s, layer=layer: layer(s, mask=mask, noise=noise), scores, upstream)
        for layer in (soft, hard)
    )
    assert np.any(one != 0)
    np.testing.assert_array_equal(one, other)


def test_without_noise_it_is_a_softmax_with_a_temperature():
    scores, mask = scores_and_mask()
    softmax = SoftmaxNormalizer(**FLOAT64)
    weights = GumbelSoftmaxNormalizer(2.0, **FLOAT64)(scores, mask=mask)
    np.testing.assert_allclose(weights, softmax(scores / 2, mask=mask), atol=1e-12)


def test_a_low_temperature_is_nearly_one_hot_and_a_high_one_nearly_even():
    scores, _ = scores_and_mask()
    cold = GumbelSoftmaxNormalizer(1e-4, seed=1)(scores, training=True)
    assert np.mean(np.array(cold).max(axis=-1)) > 0.999
    hot = GumbelSoftmaxNormalizer(1e5, seed=1)(scores, training=True)
    np.testing.assert_allclose(hot, np.full(scores.shape, 1 / 7), atol=1e-4)


def test_evaluation_has_no_noise_unless_asked_for():
    scores, _ = scores_and_mask()
    quiet, noisy = GumbelSoftmaxNormalizer(seed=1), GumbelSoftmaxNormalizer(1.0, False, "sample")
    np.testing.assert_array_equal(quiet(scores), quiet(scores))
    assert not np.array_equal(noisy(scores), noisy(scores))


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, float("nan"), "1", None])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match=r"`temperature`.*\(0, inf\).*ArgmaxNormalizer"):
        GumbelSoftmaxNormalizer(temperature)


def test_inference_must_be_a_known_word():
    with pytest.raises(ValueError, match="`inference_mode`.*'noiseless', 'sample'"):
        GumbelSoftmaxNormalizer(inference_mode="argmax")
