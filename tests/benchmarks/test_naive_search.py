"""The naive loop, a peer of the decode benchmark, finds what our searches find."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import decode
from benchmarks.naive_search import make_search


@pytest.mark.parametrize("beam", [1, 3])
def test_both_have_the_same_log_probabilities(beam):
    model = decode.example_model(width=16, layers=2, heads=2, vocabulary=37)
    generator = np.random.default_rng(3)
    for weight in model.weights:  # normalizations and biases too, which begin at 1 and 0
        weight.assign(weight + generator.normal(scale=0.3, size=weight.shape))
    sources = tf.constant(decode.example_sources(5, 7, 37))
    found = tf.function(make_search(model, 5, beam, 9), autograph=False)(sources)
    expected = tf.function(decode.searcher(model, beam, 9), autograph=False)(sources)[1]
    np.testing.assert_allclose(found, expected, atol=1e-4)
