"""The hard choice: the first of the best, never a masked key."""

import numpy as np
from tf_or_skip import tf

from keras_attention import ArgmaxNormalizer


def test_ties_go_to_the_lowest_index():
    scores = np.array([[1.0, 4.0, 4.0], [0.0, 0.0, 0.0], [-2.0, -1.0, -1.0]])
    expected = [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(ArgmaxNormalizer()(scores), expected)
    compiled = tf.function(ArgmaxNormalizer(), jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(scores)), expected)


def test_a_masked_key_is_never_chosen_even_where_it_ties_with_the_mask():
    scores = np.array([[9.0, -1e9, -1e9], [np.nan, 1.0, 2.0], [np.inf, 5.0, 7.0]], "float32")
    mask = np.array([[False, True, True], [False, True, True], [False, True, False]])
    weights = np.array(ArgmaxNormalizer()(scores, mask=mask))
    assert np.all(weights[~mask] == 0)
    np.testing.assert_array_equal(weights[1:], [[0, 0, 1], [0, 1, 0]])


def test_half_precision_scores_that_round_to_one_number_are_told_apart():
    """Float32 scores are compared as they are, not rounded to the compute dtype first."""
    scores = np.array([[100.0, 100.01, 100.0]], "float32")
    weights = np.array(ArgmaxNormalizer(dtype="bfloat16")(scores), "float32")
    np.testing.assert_array_equal(weights, [[0, 1, 0]])
