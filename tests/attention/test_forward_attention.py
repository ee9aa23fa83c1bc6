"""Forward attention with a transition agent, against the paper's recursion."""

import numpy as np
import pytest
from seeds import set_seed

from keras_attention import Attention, DotScorer, ForwardAttention

B, Q, S, D, U = 2, 5, 7, 3, 11
RANDOM = np.random.RandomState(1)
QUERY, VALUE = RANDOM.randn(B, Q, D), RANDOM.randn(B, S, D)
MASK = np.array([[True] * 7, [False, True, True, False, True, True, False]])


def _layer(**options):
    set_seed(1)
    return ForwardAttention(DotScorer(dtype="float64"), U, dtype="float64", **options)


def _by_hand(layer, query, value):
    """The recursion for one batch element without masked keys."""
    kernel, bias, vector, output_bias = map(np.array, layer.weights)
    previous, transition, weights = np.eye(len(value))[0], 0.5, []
    for row in query:
        moved = np.append(0.0, previous[:-1])
        forward = ((1 - transition) * previous + transition * moved) * np.exp(value @ row)
        previous = forward / forward.sum()
        hidden = np.tanh(np.concatenate([previous @ value, row]) @ kernel + bias)
        transition = 1 / (1 + np.exp(-(hidden @ vector + output_bias)[0]))
        weights.append(previous)
    return np.array(weights)


def test_weights_are_those_of_the_papers_recursion():
    layer = _layer()
    context, weights = layer(QUERY, VALUE, value_mask=MASK, return_attention_scores=True)
    for b in range(B):
        expected = np.zeros((Q, S))
        expected[:, MASK[b]] = _by_hand(layer, QUERY[b], VALUE[b, MASK[b]])
        np.testing.assert_allclose(weights[b], expected, atol=1e-9)
        np.testing.assert_allclose(context[b], expected @ VALUE[b], atol=1e-9)


def test_an_agent_that_never_decides_is_the_normalizer():
    weights = _layer(kernel_initializer="zeros")(QUERY, VALUE, return_attention_scores=True)[1]
    plain = Attention("dot", normalizer="forward", dtype="float64")
    expected = plain(QUERY, VALUE, return_attention_scores=True)[1]
    np.testing.assert_allclose(weights, expected, atol=1e-9)


def test_with_previous_weights_each_query_is_one_step():
    previous = RANDOM.dirichlet(np.ones(S), size=(B, Q))
    weights = _layer()(QUERY, VALUE, previous_weights=previous, return_attention_scores=True)[1]
    moved = np.pad(previous, ((0, 0), (0, 0), (1, 0)))[:, :, :-1]
    forward = (previous + moved) * np.exp(QUERY @ VALUE.swapaxes(1, 2))
    np.testing.assert_allclose(weights, forward / forward.sum(-1, keepdims=True), atol=1e-9)


def test_wrong_units_are_refused():
    with pytest.raises(ValueError, match="`units` to be a positive int.*units=0"):
        ForwardAttention("dot", 0)
