"""Alpha-entmax against its definition, its limits, and the gradient of a learnable alpha."""

import numpy as np
import pytest
from normalizer_checks import gradient_of, scores_and_mask
from tf_or_skip import tf

from keras_attention import EntmaxNormalizer, SoftmaxNormalizer, SparsemaxNormalizer

FLOAT64 = {"dtype": "float64"}


def reference(scores, alpha):
    """The definition of one row: tau is where the weights sum to 1."""

    def weights(threshold):
        return np.maximum((alpha - 1) * scores - threshold, 0) ** (1 / (alpha - 1))

    low, high = (alpha - 1) * scores.max() - 1, (alpha - 1) * scores.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if weights(middle).sum() > 1 else (low, middle)
    return weights(low)


# In float32 up to 2.5: beyond, weights rise so steeply from 0 that the scores' own rounding shows.
@pytest.mark.parametrize(
    ("dtype", "tolerance", "alphas"),
    [
        ("float64", 1e-9, (1.05, 1.3, 1.5, 1.75, 2.0, 2.5, 4.0)),
        ("float32", 3e-5, (1.05, 1.3, 1.5, 1.75, 2.0, 2.5)),
    ],
)
def test_weights_are_those_of_the_definition(dtype, tolerance, alphas):
    scores, _ = scores_and_mask(shape=(3, 5, 41), scale=1.5)
    for alpha in alphas:
        weights = np.array(EntmaxNormalizer(alpha, dtype=dtype)(scores))
        expected = np.apply_along_axis(reference, -1, scores, alpha)
        np.testing.assert_allclose(weights, expected, atol=tolerance)


def test_one_and_a_half_by_hand():
    """(1, 0): (1/2 - tau)^2 + tau^2 = 1 gives tau = (1 - sqrt 7) / 4 for the halved scores."""
    threshold = (1 - np.sqrt(7)) / 4
    expected = [[(0.5 - threshold) ** 2, threshold**2]]
    weights = EntmaxNormalizer(1.5, **FLOAT64)(np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(weights, expected, atol=1e-15)


def test_a_learnable_alpha_starts_where_a_fixed_one_stands():
    scores, mask = scores_and_mask()
    for alpha in (1.001, 1.5, 2.0, 3.5, 60.0):
        learn_alpha = EntmaxNormalizer(alpha, learn_alpha=True, **FLOAT64)(scores, mask=mask)
        fixed = EntmaxNormalizer(alpha, **FLOAT64)(scores, mask=mask)
        np.testing.assert_allclose(learn_alpha, fixed, atol=1e-8)


def test_near_one_it_is_the_softmax_and_at_two_sparsemax():
    scores, mask = scores_and_mask()
    softmax = SoftmaxNormalizer(**FLOAT64)(scores, mask=mask)
    for surplus in (1e-3, 1e-5):
        near = EntmaxNormalizer(1 + surplus, **FLOAT64)(scores, mask=mask)
        np.testing.assert_allclose(near, softmax, atol=2 * surplus)
    near = np.array(EntmaxNormalizer(1 + 1e-5)(scores, mask=mask))  # in float32 as well
    np.testing.assert_allclose(near, softmax, atol=3e-5)
    sparse = SparsemaxNormalizer()(scores, mask=mask)
    np.testing.assert_array_equal(EntmaxNormalizer(2)(scores, mask=mask), sparse)


def test_a_larger_alpha_is_sparser():
    scores, _ = scores_and_mask(shape=(7, 5, 31), scale=1.0)
    kept = [np.sum(np.array(EntmaxNormalizer(a)(scores)) > 0) for a in (1.1, 1.5, 2, 3)]
    assert kept == sorted(kept, reverse=True) and len(set(kept)) == 4


def _loss(layer, scores, mask, upstream):
    return tf.reduce_sum(layer(scores, mask=mask) * upstream)


@pytest.mark.parametrize("alpha", [1.05, 1.5, 1.9, 2.6])
def test_the_gradient_of_alpha_equals_finite_differences(alpha):
    scores, mask = scores_and_mask(2, scale=0.7)
    upstream = np.random.RandomState(4).randn(*scores.shape)
    layer = EntmaxNormalizer(alpha, learn_alpha=True, **FLOAT64)
    with tf.GradientTape() as tape:
        loss = _loss(layer, scores, mask, upstream)
    (found,) = tape.gradient(loss, layer.trainable_variables)
    start, losses = float(layer.raw_alpha), []
    for step in (1e-5, -1e-5):
        layer.raw_alpha.assign(start + step)
        losses.append(float(_loss(layer, scores, mask, upstream)))
    assert abs(float(found)) > 1e-3
    assert float(found) == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-5)


def test_gradients_of_float32_are_those_of_float64_near_one_and_beyond_two():
    """Where the formulas as printed subtract nearly equal numbers, and where slopes explode."""
    scores, mask = scores_and_mask(2, scale=0.7)
    for alpha, tolerance in ((1.001, 1e-3), (1.3, 1e-5), (3.0, 1e-5), (6.0, 2e-3)):
        found = []
        for dtype in ("float32", "float64"):
            layer = EntmaxNormalizer(alpha, learn_alpha=True, dtype=dtype)
            # The scores as upstream: more alpha raises their mean, so nothing cancels.
            data = tf.cast(scores, dtype), mask, tf.cast(scores, dtype)
            with tf.GradientTape() as tape:
                tape.watch(data[0])
                loss = _loss(layer, *data)
            found.append(tape.gradient(loss, [data[0], *layer.trainable_variables]))
        for one, other in zip(*found, strict=True):
            scale = np.abs(other).max()
            np.testing.assert_allclose(one, other, atol=tolerance * scale)


def test_alpha_stays_above_one_however_far_it_is_pushed():
    scores, mask = scores_and_mask()
    layer = EntmaxNormalizer(1.5, learn_alpha=True)
    softmax = np.array(SoftmaxNormalizer()(scores, mask=mask))
    layer.build(scores.shape)
    layer.raw_alpha.assign(-200.0)
    np.testing.assert_allclose(layer(scores, mask=mask), softmax, atol=1e-3)
    upstream = np.ones(scores.shape, "float32")
    found = gradient_of(lambda s: layer(s, mask=mask), scores.astype("float32"), upstream)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("alpha", [1, 1.0, 0.5, float("nan"), float("inf"), "1.5", True, None])
def test_alpha_must_be_above_one(alpha):
    with pytest.raises(ValueError, match=r"`alpha`.*\(1, inf\).*SoftmaxNormalizer.*alpha="):
        EntmaxNormalizer(alpha)
