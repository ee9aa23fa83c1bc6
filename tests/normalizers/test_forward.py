"""Forward attention against the paper's recursion, over steps and at once."""

import keras
import numpy as np
import pytest
from normalizer_checks import scores_and_mask
from tf_or_skip import tf

from keras_attention import Attention, AttentionRNN, ForwardNormalizer
from keras_attention.normalizers.forward import forward_step

FLOAT64 = {"dtype": "float64"}


def softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def reference(scores, mask, previous=None, transition=None):
    """The paper's recursion for one batch element, on its unmasked keys."""
    weights = np.zeros_like(scores)
    previous = np.eye(scores.shape[1])[mask.any(axis=0).argmax()] if previous is None else previous
    for i in range(len(scores)):
        kept = np.flatnonzero(mask[i])
        if not len(kept):
            continue  # attention stays where it was
        stay, move = previous[kept], np.append(0.0, previous[kept][:-1])
        if transition is not None:
            stay, move = (1 - transition) * stay, transition * move
        forward = (stay + move) * softmax(scores[i, kept])
        weights[i, kept] = forward / forward.sum()
        previous = weights[i]
    return weights


def test_weights_are_those_of_the_papers_recursion():
    scores, mask = scores_and_mask(scale=1.0)
    mask = np.broadcast_to(mask[:, 1:2], mask.shape).copy()  # one mask for all queries
    mask[0, 3] = False  # besides one masked query
    mask[1] = mask[0, :1]
    weights = ForwardNormalizer(**FLOAT64)(scores, mask=mask)
    for row in range(len(scores)):
        expected = reference(scores[row], mask[row])
        np.testing.assert_allclose(weights[row], expected, atol=1e-12)
    assert np.all(np.array(weights)[0, 3] == 0) and np.any(np.array(weights)[0, 4] > 0)


def test_two_steps_by_hand():
    """y = 3/4, 1/4, 0: first 3/4, 1/4; then 3/4 * 3/4 and (3/4 + 1/4) 1/4, of sum 13/16."""
    scores = np.array([[[np.log(3.0), 0.0, -1e9]] * 2])
    weights = ForwardNormalizer(**FLOAT64)(scores)
    expected = [[3 / 4, 1 / 4, 0], [9 / 13, 4 / 13, 0]]
    np.testing.assert_allclose(weights[0], expected, atol=1e-15)


def test_a_transition_weighs_moving_against_staying():
    scores, previous = np.random.RandomState(1).randn(2, 3, 7)
    previous = np.apply_along_axis(softmax, 1, previous)
    transition = np.array([[0.0], [0.3], [1.0]])
    found = forward_step(scores, previous, transition)
    for row, u in enumerate(transition[:, 0]):
        expected = reference(scores[row][None], np.ones((1, 7), bool), previous[row], u)[0]
        np.testing.assert_allclose(found[row], expected, atol=1e-9)


def test_steps_with_the_weights_before_equal_the_full_call():
    scores, _ = scores_and_mask()
    mask = np.random.RandomState(3).rand(3, 1, 7) > 0.3
    layer = ForwardNormalizer(**FLOAT64)
    full, previous = np.array(layer(scores, mask=mask)), layer.initial_weights(3, 7)
    for i in range(scores.shape[1]):
        previous = layer(scores[:, i], mask=mask[:, 0], previous_weights=previous)
        np.testing.assert_allclose(previous, full[:, i], atol=1e-12)
    heads = np.stack([scores, scores], axis=1)
    np.testing.assert_allclose(layer(heads, mask=mask[:, None])[:, 1], full, atol=1e-12)


def test_masked_keys_are_skipped_and_no_other():
    mask = np.array([[[False, True, False, False, True, True, True]]])
    mask = np.repeat(mask, 3, axis=1)
    scores = np.full((1, 3, 7), -50.0) + 100 * np.eye(7)[[6, 6, 6]]  # attention wants the last key
    weights = np.array(ForwardNormalizer(**FLOAT64)(scores, mask=mask))
    np.testing.assert_allclose(weights[0, 0], [0, 0.5, 0, 0, 0.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(weights[0, 1], [0, 0.25, 0, 0, 0.5, 0.25, 0], atol=1e-12)
    np.testing.assert_allclose(weights[0, 2], np.eye(7)[6], atol=1e-12)


@pytest.mark.parametrize("previous", [[0.0, 0, 0], [1.0, 0, 0]])
def test_attention_without_weight_starts_on_the_first_unmasked_key(previous):
    mask = np.array([[False, True, True]])
    weights = ForwardNormalizer()(
        np.zeros((1, 3)), mask=mask, previous_weights=np.array([previous])
    )
    np.testing.assert_allclose(weights, [[0, 0.5, 0.5]])


def test_scores_that_underflow_a_softmax_leave_weights_that_sum_to_one():
    scores = np.array([[[0.0, 0.0, 500.0, 500.0]] * 2], "float32")
    weights = np.array(ForwardNormalizer()(scores))[0]
    np.testing.assert_allclose(weights, [[0.5, 0.5, 0, 0], [0, 0, 1, 0]], atol=1e-7)


@pytest.mark.thorough
def test_a_recurrent_layer_trains_compiled_with_unknown_sizes():
    attention = Attention("general", normalizer="forward")
    layer = AttentionRNN(keras.layers.GRUCell(5), attention, order="bahdanau")
    layer.build((None, None, 2), (None, None, 11))

    def gradients(inputs, memory, mask):
        with tf.GradientTape() as tape:
            outputs = layer(inputs, memory, memory_mask=mask)
            total = tf.reduce_sum(outputs**2)
        return tape.gradient(total, layer.trainable_variables)

    shapes = ([None, None, 2], "float32"), ([None, None, 11], "float32"), ([None, None], "bool")
    specs = [tf.TensorSpec(*shape) for shape in shapes]
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    random = np.random.RandomState(1)
    inputs, memory = (random.randn(*shape).astype("float32") for shape in ((3, 4, 2), (3, 7, 11)))
    data = tuple(map(tf.constant, (inputs, memory, random.rand(3, 7) > 0.3)))
    for one, other in zip(compiled(*data), gradients(*data), strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, atol=1e-5)
