"""What a request may ask of its length penalty, and what it gets."""

import numpy as np
import tensorflow as tf

from keras_attention.export._per_example_length_penalty import PerExampleLengthPenalty

LOWEST = -9e8  # of the searches: what is below counts as this


def scores(*alphas):
    """Of two hypotheses of 128 tokens, for every alpha."""
    log_probs = tf.constant([[-90.0, -150.0]] * len(alphas))
    return PerExampleLengthPenalty(tf.constant(alphas))(log_probs, tf.constant([[128]])).numpy()


def test_hypotheses_stay_apart_whatever_is_asked():
    for worse, better in np.sort(scores(-10.0, -1e30, -np.inf, -5.0, 5.0, 1e30, np.inf)):
        assert LOWEST < worse < better < 0


def test_alphas_beyond_five_are_five_and_none_is_zero():
    inside = scores(-5.0, 5.0, 0.0)
    assert scores(-5.1, 7.0, np.nan).tolist() == inside.tolist()
    assert scores(-np.inf, np.inf, -0.0).tolist() == inside.tolist()
