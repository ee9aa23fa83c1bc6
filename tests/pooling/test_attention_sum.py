"""The sum over mentions: worked numbers, dense against candidates, the clamped log."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import AttentionSum, safe_log

WEIGHTS = np.array([[0.192367, 0.284724, 0.522909]])
IDS = np.array([[7, 3, 7]])


def test_the_worked_numbers():
    words = np.array(AttentionSum(11, dtype="float64")(WEIGHTS, IDS))
    assert words.shape == (1, 11)
    np.testing.assert_allclose(words[0, [7, 3]], [0.715276, 0.284724], atol=1e-12)
    assert np.all(np.delete(words[0], [7, 3]) == 0)
    loss = -safe_log(keras.ops.convert_to_tensor(words[0, 7]))
    np.testing.assert_allclose(float(loss), 0.335087, atol=1e-6)


def test_every_row_sums_its_own_mentions():
    random = np.random.RandomState(1)
    weights, ids = random.rand(5, 13), random.randint(0, 7, size=(5, 13))
    expected = np.zeros((5, 7))
    for row in range(5):
        for weight, word in zip(weights[row], ids[row], strict=True):
            expected[row, word] += weight
    words = AttentionSum(7, dtype="float64")(weights, ids)
    np.testing.assert_allclose(np.array(words), expected, atol=1e-12)
    asked = random.randint(0, 7, size=(5, 3))
    some = AttentionSum(dtype="float64")(weights, ids, asked)
    np.testing.assert_allclose(np.array(some), np.take_along_axis(expected, asked, 1), atol=1e-12)


def test_the_sum_can_beat_the_largest_weight():
    words = AttentionSum(9)(np.array([[0.4, 0.3, 0.3]], "float32"), np.array([[2, 5, 5]]))
    assert int(np.array(words)[0].argmax()) == 5


def test_many_mentions_add_up_in_half_precision():
    weights = np.full((1, 3000), 1 / 3000, "float16")
    words = AttentionSum(3, dtype="float16")(weights, np.ones((1, 3000), "int32"))
    assert keras.backend.standardize_dtype(words.dtype) == "float32"
    np.testing.assert_allclose(float(words[0, 1]), 3000 * float(np.float16(1 / 3000)), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_log_of_nothing_is_finite_and_moves_nothing(dtype):
    probabilities = tf.constant([0.0, 0.5], dtype)
    with tf.GradientTape() as tape:
        tape.watch(probabilities)
        logs = safe_log(probabilities)
    np.testing.assert_allclose(np.array(logs), np.log([1e-12, 0.5]), rtol=1e-5)
    np.testing.assert_allclose(np.array(tape.gradient(logs, probabilities)), [0, 2])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: AttentionSum(0), "`vocabulary_size`.*vocabulary_size=0"),
        (lambda: AttentionSum()(WEIGHTS, IDS), "either `vocabulary_size`.*candidate_ids=None"),
        (lambda: AttentionSum(11)(WEIGHTS, IDS, IDS), "either `vocabulary_size`"),
        (lambda: AttentionSum(11)(WEIGHTS, IDS[:, :2]), "same size on axis 1"),
        (lambda: AttentionSum(11)(WEIGHTS, IDS[0]), "`document_ids` of rank 2"),
        (lambda: AttentionSum(7)(WEIGHTS, IDS), "`document_ids` between 0 and 6.*with 7"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
