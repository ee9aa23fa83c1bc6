"""Monotonic attention against the paper's reader, in its three modes, over steps and at once."""

import numpy as np
import pytest
from normalizer_checks import scores_and_mask
from tf_or_skip import tf

from keras_attention import MonotonicNormalizer
from keras_attention._utils.loop import run_loop

FLOAT64 = {"dtype": "float64"}
MODES = pytest.mark.parametrize("mode", ["parallel", "recursive"])
EVERY_MODE = pytest.mark.parametrize("mode", ["parallel", "recursive", "hard"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(stop_probabilities, mask, previous=None):
    """Equation 9, entry by entry, for one row: `stop_probabilities` is (query, key)."""
    queries, keys = stop_probabilities.shape
    weights = np.zeros_like(stop_probabilities)
    previous = np.eye(keys)[0] if previous is None else previous
    for i in range(queries):
        if not mask[i].any():
            continue  # the reader stays where it was
        arriving = 0.0
        for j in range(keys):
            arriving += previous[j]
            chosen = stop_probabilities[i, j] * mask[i, j]
            weights[i, j] = chosen * arriving
            arriving *= 1 - chosen
        previous = weights[i]
    return weights


@MODES
def test_weights_are_those_of_the_papers_recursion(mode):
    scores, mask = scores_and_mask(scale=1.0)
    weights = np.array(MonotonicNormalizer(mode, score_bias_init=-0.5, **FLOAT64)(scores, mask))
    for row in range(len(scores)):
        expected = reference(sigmoid(scores[row] - 0.5), mask[row])
        np.testing.assert_allclose(weights[row], expected, atol=1e-12)


def test_two_steps_by_hand():
    """All p = 1/2: first 1/2, 1/4, 1/8; then p_j times what arrives: 1/2; 1/2; 3/8."""
    scores = np.zeros((1, 2, 3))
    expected = [[1 / 2, 1 / 4, 1 / 8], [1 / 4, 1 / 4, 3 / 16]]
    for mode in ("parallel", "recursive"):
        weights = MonotonicNormalizer(mode, **FLOAT64)(scores)
        np.testing.assert_allclose(weights[0], expected, atol=1e-15)


def test_hard_is_the_recursion_where_probabilities_are_zero_and_one():
    scores, mask = scores_and_mask(shape=(7, 5, 11))
    hard = np.array(MonotonicNormalizer("hard", **FLOAT64)(scores, mask))
    expected = MonotonicNormalizer("recursive", **FLOAT64)(1e6 * scores, mask)
    np.testing.assert_array_equal(hard, expected)
    assert set(np.unique(hard)) == {0.0, 1.0}
    places = [row.argmax(axis=-1)[row.any(axis=-1)] for row in hard]
    assert all(np.all(np.diff(place) >= 0) for place in places), "the reader goes forward only"


def test_hard_weights_are_how_often_the_reader_stops():
    """The expectation that the other modes compute, from readers that flip coins."""
    random = np.random.RandomState(1)
    stop_probabilities, readers = sigmoid(random.randn(3, 5)), 20_011
    coins = np.where(random.rand(readers, 3, 5) < stop_probabilities, 1.0, -1.0)
    stops = np.array(MonotonicNormalizer("hard")(coins)).mean(axis=0)
    expected = reference(stop_probabilities, np.ones((3, 5), bool))
    np.testing.assert_allclose(stops, expected, atol=4 * 0.5 / np.sqrt(readers))


@EVERY_MODE
def test_steps_with_the_weights_before_equal_the_full_call(mode):
    scores, _ = scores_and_mask()
    mask = np.random.RandomState(3).rand(3, 1, 7) > 0.3
    layer = MonotonicNormalizer(mode, **FLOAT64)
    full = np.array(layer(scores, mask=mask))
    previous = layer.initial_weights(3, 7)
    for i in range(scores.shape[1]):
        previous = layer(scores[:, i], mask=mask[:, 0], previous_weights=previous)
        np.testing.assert_allclose(previous, full[:, i], atol=1e-12)


@EVERY_MODE
def test_with_previous_weights_each_query_is_one_step_from_its_row(mode):
    scores, mask = scores_and_mask(scale=1.0)
    previous = np.random.RandomState(4).dirichlet(np.ones(7), size=scores.shape[:2])
    if mode == "hard":
        previous = np.eye(7)[previous.argmax(axis=-1)]
    layer = MonotonicNormalizer(mode, **FLOAT64)
    weights = np.array(layer(scores, mask=mask, previous_weights=previous))
    stop_probabilities = (scores > 0) * 1.0 if mode == "hard" else sigmoid(scores)
    for i, j in np.ndindex(scores.shape[:2]):
        expected = reference(stop_probabilities[i, j][None], mask[i, j][None], previous[i, j])[0]
        np.testing.assert_allclose(weights[i, j], expected, atol=1e-12)


@EVERY_MODE
def test_axes_in_front_are_batches(mode):
    scores, mask = scores_and_mask(shape=(6, 3, 5))
    layer = MonotonicNormalizer(mode)
    heads = layer(scores.reshape(2, 3, 3, 5), mask=mask.reshape(2, 3, 3, 5))
    np.testing.assert_array_equal(np.reshape(heads, (6, 3, 5)), layer(scores, mask=mask))


@EVERY_MODE
def test_a_query_without_keys_changes_nothing_for_the_next(mode):
    scores, mask = scores_and_mask()
    mask[:, 2] = False
    layer = MonotonicNormalizer(mode, **FLOAT64)
    weights = np.array(layer(scores, mask=mask))
    without = layer(np.delete(scores, 2, 1), mask=np.delete(mask, 2, 1))
    np.testing.assert_allclose(np.delete(weights, 2, 1), without, atol=1e-12)
    assert np.any(weights[:, 3:] > 0)


def test_over_a_long_stretch_the_recursion_is_exact_and_the_sums_lose_weight():
    """What the page says of the two modes: at p = .9, 12 keys leave a product below 1e-10."""
    scores = np.full((1, 1, 31), np.log(9.0))
    previous = np.eye(31)[None, None, 20]
    recursive, parallel = (
        np.array(MonotonicNormalizer(mode, **FLOAT64)(scores, previous_weights=previous))[0, 0]
        for mode in ("recursive", "parallel")
    )
    np.testing.assert_allclose(recursive[20:22], [0.9, 0.09], atol=1e-12)
    assert parallel[20] < 1e-9


def test_noise_moves_scores_by_sigmoid_noise_while_training():
    scores, mask = scores_and_mask()
    noise = np.random.RandomState(2).randn(*scores.shape)
    layer = MonotonicNormalizer("recursive", sigmoid_noise=0.3, **FLOAT64)
    found = layer(scores, mask=mask, noise=noise)
    np.testing.assert_allclose(found, layer(scores + 0.3 * noise, mask=mask), atol=1e-12)
    assert not np.array_equal(layer(scores, training=True), layer(scores, training=True))
    np.testing.assert_array_equal(layer(scores), layer(scores, training=False))
    assert MonotonicNormalizer().noise((2, 3), training=True) is None


@pytest.mark.thorough
@MODES
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_loop_of_steps_trains_compiled_with_unknown_sizes(mode, dtype):
    """As a recurrent layer runs it: the weights are the state of the loop."""
    layer = MonotonicNormalizer(mode, dtype=dtype)
    scores, mask = scores_and_mask(scale=1.0)
    scores, kept = scores.astype(dtype), mask[:, 0]
    layer.build(scores[:, 0].shape)

    def gradients(scores, kept):
        def step(scores, states):
            weights = layer(scores, mask=kept, previous_weights=states[0])
            return weights, [weights]

        with tf.GradientTape() as tape:
            tape.watch(scores)
            initial = layer.initial_weights(tf.shape(scores)[0], tf.shape(scores)[2])
            weights, _ = run_loop(step, scores, [initial])
            total = tf.reduce_sum(weights * tf.cast(tf.range(tf.shape(scores)[2]), dtype))
        return tape.gradient(total, [scores, layer.score_bias.value])

    signature = [tf.TensorSpec([None] * 3, dtype), tf.TensorSpec([None] * 2, "bool")]
    compiled = tf.function(gradients, jit_compile=True, input_signature=signature)
    found = compiled(tf.constant(scores), tf.constant(kept))
    expected = gradients(tf.constant(scores), tf.constant(kept))
    for one, other in zip(found, expected, strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, atol=1e-12 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "soft"}, "`mode`.*'parallel', 'recursive', 'hard'.*mode='soft'"),
        ({"sigmoid_noise": -1.0}, r"`sigmoid_noise`.*\[0, inf\).*sigmoid_noise=-1.0"),
        ({"score_bias_init": "zeros"}, "`score_bias_init` to be a number.*'zeros'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MonotonicNormalizer(**arguments)
