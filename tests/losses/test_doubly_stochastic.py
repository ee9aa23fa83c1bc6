"""The doubly stochastic penalty as a layer: the worked number, masks, what passes."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import DoublyStochasticLoss, doubly_stochastic_penalty

B, T, S, V = 3, 2, 5, 7
MASK = np.array([[True, True], [True, False], [False, False]])
SOURCE_MASK = np.arange(S) < np.array([[5], [3], [4]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).rand(*shape)


WEIGHTS = _random(B, T, S)


def test_the_worked_number():
    weights = np.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]])
    np.testing.assert_allclose(float(doubly_stochastic_penalty(weights)), 0.42, atol=1e-12)
    loss = DoublyStochasticLoss(loss_weight=2.0, target=0.5)
    loss(np.zeros((1, 2, V)), weights)
    # Sums .6, .9, .5 against .5.
    np.testing.assert_allclose(float(loss.losses[0]), 2 * (0.01 + 0.16 + 0.0), atol=1e-6)


@pytest.mark.parametrize("junk", [0.0, 1e4, np.nan, np.inf])
def test_padding_is_in_no_sum_and_no_mean(junk):
    kept = MASK[:, :, None] & SOURCE_MASK[:, None, :]
    weights = tf.constant(np.where(kept, WEIGHTS, junk))
    with tf.GradientTape() as tape:
        tape.watch(weights)
        penalty = doubly_stochastic_penalty(weights, MASK, SOURCE_MASK)
    first = sum((1 - WEIGHTS[0, :, i].sum()) ** 2 for i in range(5))
    second = sum((1 - WEIGHTS[1, 0, i]) ** 2 for i in range(3))
    np.testing.assert_allclose(float(penalty), (first + second) / 2, rtol=1e-12)
    gradient = np.array(tape.gradient(penalty, weights))
    assert np.all(gradient[~kept] == 0) and np.all(gradient[kept] != 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_mask_may_serve_all_batch_elements_or_all_positions(axis):
    masks = [np.take(mask, [1], axis) for mask in (MASK, SOURCE_MASK)]
    full = [np.broadcast_to(mask, (B, n)) for mask, n in zip(masks, (T, S), strict=True)]
    found, expected = (float(doubly_stochastic_penalty(WEIGHTS, *given)) for given in (masks, full))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_nothing_real_costs_nothing():
    assert float(doubly_stochastic_penalty(WEIGHTS, np.zeros((B, T), "bool"))) == 0


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float16"])
def test_logits_pass_unchanged_with_their_mask(policy):
    loss = DoublyStochasticLoss(dtype=policy)
    logits = tf.constant(_random(B, T, V), "float32")
    logits._keras_mask = tf.constant(MASK)
    passed = loss(logits, tf.constant(WEIGHTS, "float32"))
    assert passed.dtype == "float32" and np.array_equal(np.array(passed), np.array(logits))
    assert np.array_equal(np.array(passed._keras_mask), MASK)
    assert loss.losses[0].dtype == "float32"


def test_bad_input_is_named():
    loss = DoublyStochasticLoss()
    with pytest.raises(ValueError, match="`weights` of rank 3.*Received: weights.shape=.3, 2"):
        loss(np.zeros((B, T, V)), WEIGHTS[:, :, 0])
    with pytest.raises(ValueError, match="`source_mask` of shape .batch, key."):
        loss(np.zeros((B, T, V)), WEIGHTS, source_mask=MASK)
    with pytest.raises(ValueError, match="`loss_weight` to be a number.*loss_weight=-1"):
        DoublyStochasticLoss(loss_weight=-1)
    with pytest.raises(ValueError, match="known|rank|shape"):
        loss(keras.KerasTensor((None, T, V)), keras.KerasTensor((None, T)))
