"""The masked softmax: what it gives, what an empty row gives, in every dtype."""

import warnings

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import SoftmaxNormalizer

SCORES = np.array([[[0.3, -2.0, 1.7], [4.0, 0.0, -1.0]], [[1.0, 2.0, 3.0], [0.0, 0.0, 9.0]]])
MASK = np.array([[[True, True, False], [False, True, True]], [[False] * 3, [True] * 3]])


def reference(scores, mask):
    weights = np.zeros_like(scores)
    for index in np.ndindex(scores.shape[:-1]):
        kept = np.flatnonzero(mask[index])
        if kept.size:
            powers = [np.exp(scores[index][k] - scores[index][kept].max()) for k in kept]
            weights[index][kept] = powers / np.sum(powers)
    return weights


def test_weights_are_the_softmax_over_the_kept_keys():
    weights = np.array(SoftmaxNormalizer(dtype="float64")(SCORES, mask=MASK))
    np.testing.assert_allclose(weights, reference(SCORES, MASK), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 200.0])
@pytest.mark.parametrize("jit", [False, True])
def test_an_empty_row_has_weights_zero_and_finite_gradients(dtype, scale, jit):
    normalizer = SoftmaxNormalizer(dtype=dtype)

    @tf.function(jit_compile=jit)
    def run(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            weights = normalizer(scores, mask=tf.constant(MASK))
            total = tf.reduce_sum(tf.cast(weights, "float32") ** 2)
        return weights, tape.gradient(total, scores)

    weights, gradient = run(tf.cast(SCORES * scale, dtype))
    assert weights.dtype == dtype
    assert np.all(weights.numpy()[1, 0] == 0)
    assert np.all(weights.numpy()[~MASK] == 0)
    assert np.all(np.isfinite(np.array(tf.cast(gradient, "float32"))))
    sums = np.array(tf.reduce_sum(tf.cast(weights, "float32"), -1))
    np.testing.assert_allclose(sums, [[1, 1], [0, 1]], atol=2e-2 if dtype != "float32" else 1e-6)


def test_half_precision_scores_are_normalized_in_float32():
    scores = np.linspace(-8, 8, 2003)[None].astype("float16")
    weights = np.array(SoftmaxNormalizer(dtype="float16")(scores), "float32")
    exact = np.exp(scores.astype("float64"))
    np.testing.assert_allclose(weights, exact / exact.sum(), atol=1e-5)


def test_a_source_of_one_key_is_no_reason_to_warn():
    """Keras suspects a mistake in a softmax over one number, `ops.softmax` says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = SoftmaxNormalizer()(np.array([[3.0], [4.0]]), mask=np.array([[True], [False]]))
    np.testing.assert_array_equal(weights, [[1.0], [0.0]])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 2, 3), "float32"), "boolean.*mask.dtype=float32"),
        (np.ones((2, 2, 4), bool), r"broadcast to `scores`.*mask.shape=\(2, 2, 4\)"),
        (np.ones((7, 2, 2, 3), bool), "broadcast to `scores`"),
    ],
)
def test_a_wrong_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxNormalizer()(SCORES, mask=mask)
