"""What all normalizers promise: masks before normalizing, sums, extremes, gradients, noise."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from normalizer_checks import gradient_by_differences, gradient_of, scores_and_mask
from tf_or_skip import tf

from keras_attention import (
    ArgmaxNormalizer,
    EntmaxNormalizer,
    ForwardNormalizer,
    GumbelSoftmaxNormalizer,
    MonotonicNormalizer,
    Normalizer,
    SampleNormalizer,
    SoftmaxNormalizer,
    SparsemaxNormalizer,
    normalizers,
)

#: Weights that fall where scores do and sum to 1, with a gradient.
SMOOTH = {
    "softmax": SoftmaxNormalizer,
    "sparsemax": SparsemaxNormalizer,
    "entmax-1.2": lambda **o: EntmaxNormalizer(1.2, **o),
    "entmax-1.5": EntmaxNormalizer,
    "entmax-2": lambda **o: EntmaxNormalizer(2, **o),
    "entmax-3": lambda **o: EntmaxNormalizer(3.0, **o),
    "entmax-learnable": lambda **o: EntmaxNormalizer(1.7, learn_alpha=True, **o),
    "gumbel": lambda **o: GumbelSoftmaxNormalizer(0.7, seed=1, **o),
}
#: All weight on one key.
ONE_HOT = {
    "argmax": ArgmaxNormalizer,
    "sample": lambda **o: SampleNormalizer(seed=1, **o),
    "straight": lambda **o: GumbelSoftmaxNormalizer(straight_through=True, seed=1, **o),
}
#: Weights that sum to at most 1.
MONOTONIC = {
    "parallel": lambda **o: MonotonicNormalizer("parallel", 1.0, 0.3, seed=1, **o),
    "recursive": lambda **o: MonotonicNormalizer("recursive", 1.0, 0.3, seed=1, **o),
    "hard": lambda **o: MonotonicNormalizer("hard", 1.0, 0.3, seed=1, **o),
}
#: Weights that sum to 1, over the keys that the weights before reach.
FORWARD = {"forward": ForwardNormalizer}
EVERY = SMOOTH | ONE_HOT | MONOTONIC | FORWARD
#: The same objects for all examples that hypothesis draws.
LAYERS = {name: make(dtype="float32") for name, make in EVERY.items()}


@pytest.mark.parametrize("name", EVERY)
def test_the_mask_comes_before_normalizing(name):
    """A row with a mask equals the row of its kept keys alone."""
    layer = EVERY[name](dtype="float64")
    scores, mask = scores_and_mask()
    mask = np.broadcast_to(mask[:, 1:2], mask.shape).copy()  # one mask for all queries of a row
    noise = np.random.RandomState(1).randn(*scores.shape)
    weights = np.array(layer(scores, mask=mask, noise=noise))
    for row in range(len(scores)):
        kept = mask[row, 0]
        alone = layer(scores[row : row + 1, :, kept], noise=noise[row : row + 1, :, kept])
        np.testing.assert_allclose(weights[row][:, kept], alone[0], atol=1e-12)
        assert np.all(weights[row][:, ~kept] == 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", SMOOTH | ONE_HOT)
def test_a_kept_score_wins_over_a_masked_one_however_low_it_is(name, dtype):
    """Such as the -1e9 of a mask that was added to the scores."""
    scores = np.array([[[7.0, -1e9, -1e9], [7.0, -1e9, -1e9]]])
    mask = np.array([[[False, True, True], [False, False, True]]])
    weights = np.array(EVERY[name](dtype=dtype)(scores, mask=mask), "float32")
    np.testing.assert_array_equal(weights[:, :, 0], 0)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-2 if dtype == "bfloat16" else 1e-6)
    assert weights[0, 1, 2] == pytest.approx(1, abs=1e-6)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_sums_and_masks_hold_for_any_scores(data):
    name = data.draw(st.sampled_from(sorted(EVERY)))
    shape = data.draw(st.sampled_from([(1, 1, 1), (3, 1, 5), (2, 5, 3), (1, 2, 7)]))
    scale = data.draw(st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]))
    random = np.random.RandomState(data.draw(st.integers(0, 2**31)))
    scores = (scale * random.randn(*shape)).astype("float32")
    mask = random.rand(*shape) < data.draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    weights = np.array(LAYERS[name](scores, mask=mask, training=data.draw(st.booleans())))
    assert np.all(weights[~mask] == 0)
    assert np.all(weights >= 0)
    sums, kept = weights.sum(axis=-1), mask.any(axis=-1)
    if name in MONOTONIC:
        assert np.all(sums <= 1 + 1e-5)
    else:
        np.testing.assert_allclose(sums, kept, atol=1e-5)
    if name in ONE_HOT:
        np.testing.assert_array_equal(weights.max(axis=-1), kept)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_scores_put_all_weight_on_the_best(name, size):
    scores = np.array([[size, 0.0, size / 2], [size, size, size]], "float32")
    weights = np.array(LAYERS[name](scores))
    best = np.eye(3)[scores[0].argmax()]
    np.testing.assert_allclose(weights, [best, np.full(3, 1 / 3)], atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_weights_have_the_order_of_the_scores(name):
    scores, _ = scores_and_mask(3)
    weights = np.array(SMOOTH[name](dtype="float64")(scores))
    sorted_by_score = np.take_along_axis(weights, scores.argsort(axis=-1), axis=-1)
    assert np.all(np.diff(sorted_by_score, axis=-1) >= 0)


@pytest.mark.parametrize("name", [*SMOOTH, "parallel", "recursive", "forward"])
def test_gradients_equal_finite_differences(name):
    layer = EVERY[name](dtype="float64")
    scores, mask = scores_and_mask(5, shape=(2, 3, 5), scale=0.8)
    noise, upstream = np.random.RandomState(6).randn(2, *scores.shape)

    def weights(scores):
        return layer(scores, mask=mask, noise=noise)

    found = gradient_of(weights, scores, upstream)
    assert np.any(found != 0)
    assert np.all(found[~mask] == 0)
    by_differences = gradient_by_differences(weights, scores, upstream)
    np.testing.assert_allclose(found, by_differences, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 200.0])
def test_an_empty_row_has_weights_zero_and_finite_gradients(name, dtype, scale):
    layer = EVERY[name](dtype=dtype)
    scores, mask = scores_and_mask(7)
    scores = tf.cast(scores * scale, dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = layer(scores, mask=mask, training=True)
        total = tf.reduce_sum(tf.cast(weights, "float32") ** 2)
    assert weights.dtype == dtype
    weights = np.array(tf.cast(weights, "float32"))
    assert np.all(weights[~mask] == 0)
    assert np.all(np.isfinite(weights))
    gradient = tape.gradient(total, scores)
    if name in ("argmax", "sample", "hard"):
        assert gradient is None, "a hard choice passes none on"
    else:
        assert np.all(np.isfinite(np.array(tf.cast(gradient, "float32"))))
        assert np.all(np.array(gradient)[1, 2] == 0)


@pytest.mark.parametrize("name", EVERY)
def test_noise_drawn_before_a_loop_is_what_a_call_draws(name):
    scores, mask = scores_and_mask()
    one, other = EVERY[name](), EVERY[name]()
    noise = one.noise(scores.shape, training=True)
    assert (noise is not None) == one.random
    if noise is not None:
        assert keras.backend.standardize_dtype(noise.dtype) == "float32"
        assert tuple(noise.shape) == scores.shape
    before = one(scores, mask=mask, training=True, noise=noise)
    np.testing.assert_array_equal(before, other(scores, mask=mask, training=True))
    assert one.noise(scores.shape, training=False) is None


@pytest.mark.parametrize("name", [name for name in EVERY if LAYERS[name].random])
def test_a_seed_repeats_and_the_next_draw_differs(name):
    scores, _ = scores_and_mask(scale=0.5, shape=(2, 11, 13))
    one, other = EVERY[name](), EVERY[name]()
    first, second = (np.array(one(scores, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, other(scores, training=True))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(one(scores), other(scores))


@pytest.mark.parametrize("name", normalizers._names.NORMALIZERS)
def test_every_name_makes_its_class(name):
    layer = normalizers.get(name, dtype="float64")
    assert layer.__class__.__name__.lower() == name.replace("_", "") + "normalizer"
    weights = layer(np.array([[0.0, 3.0, 1.0]]))
    assert keras.backend.standardize_dtype(weights.dtype) == "float64"


@pytest.mark.parametrize("name", EVERY)
def test_the_step_before_the_first_has_no_weight_unless_it_is_read(name):
    layer = EVERY[name](dtype="float16")
    weights = np.array(layer.initial_weights(2, 3))
    assert weights.dtype == "float16"
    first = 1.0 if layer.reads_weights else 0.0
    np.testing.assert_array_equal(weights, [[first, 0, 0], [first, 0, 0]])


def test_a_normalizer_of_ones_own_needs_no_more_than_normalize():
    class Proportional(Normalizer):
        def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
            return scores / keras.ops.sum(scores, axis=-1, keepdims=True)

    weights = Proportional(dtype="float16")(np.array([[1.0, 3.0]]))
    assert keras.backend.standardize_dtype(weights.dtype) == "float16"
    np.testing.assert_array_equal(weights, [[0.25, 0.75]])
