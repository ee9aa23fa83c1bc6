"""Monotonic chunkwise attention: the paper's equation, its hard form, and its limits."""

import numpy as np
import pytest
from seeds import set_seed

from keras_attention import (
    Attention,
    CoverageScorer,
    DotScorer,
    GeneralScorer,
    LocationScorer,
    MonotonicChunkwiseAttention,
    MonotonicNormalizer,
)
from keras_attention.attention.monotonic_chunkwise import chunkwise_weights

B, Q, S, D = 2, 5, 7, 3
RANDOM = np.random.RandomState(1)
QUERY, VALUE = RANDOM.randn(B, Q, D), RANDOM.randn(B, S, D)
MASK = np.array([[True] * 7, [True, True, False, True, True, False, False]])


def _layer(chunk_size, mode="recursive", chunk_scorer=None):
    set_seed(1)
    options = {"dtype": "float64"}
    scorers = DotScorer(**options), chunk_scorer or GeneralScorer(**options)
    normalizer = MonotonicNormalizer(mode, **options)
    return MonotonicChunkwiseAttention(chunk_size, *scorers, normalizer, **options)


def _compute_weights(stops, scores, mask, size):
    weights = np.zeros(S)
    for j in np.flatnonzero(mask):
        for k in range(j, min(j + size, S)):
            chunk = [el for el in range(max(k - size + 1, 0), k + 1) if mask[el]]
            weights[j] += stops[k] * np.exp(scores[j]) / np.exp(scores[chunk]).sum()
    return weights


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_weights_are_those_of_the_paper(size):
    layer = _layer(size)
    context, weights = layer(QUERY, VALUE, value_mask=MASK, return_attention_scores=True)
    kernel = np.array(layer.chunk_scorer.weights[0])
    monotonic = Attention("dot", MonotonicNormalizer("recursive", dtype="float64"), dtype="float64")
    stops = monotonic(QUERY, VALUE, value_mask=MASK, return_attention_scores=True)[1]
    for b, i in np.ndindex(B, Q):
        scores = VALUE[b] @ kernel.T @ QUERY[b, i]
        expected = _compute_weights(np.array(stops)[b, i], scores, MASK[b], size)
        np.testing.assert_allclose(weights[b, i], expected, atol=1e-12)
        np.testing.assert_allclose(context[b, i], expected @ VALUE[b], atol=1e-12)


def test_one_chunk_by_hand():
    """It ends at key 1 or 2 (3/4, 1/4); exp(u) = 1, 3, 1: so 3/4 (1, 3) / 4 and 1/4 (3, 1) / 4."""
    weights = chunkwise_weights(np.array([0.0, 0.75, 0.25]), np.log([1.0, 3.0, 1.0]), 2)
    np.testing.assert_allclose(weights, [3 / 16, 9 / 16 + 3 / 16, 1 / 16], atol=1e-12)


def test_a_hard_stop_reads_the_softmax_of_its_chunk():
    weights = np.array(_layer(3, "hard")(QUERY, VALUE, return_attention_scores=True)[1])
    monotonic = Attention("dot", MonotonicNormalizer("hard", dtype="float64"), dtype="float64")
    stops = np.array(monotonic(QUERY, VALUE, return_attention_scores=True)[1])
    assert stops.sum() > 5
    for b, i in np.ndindex(B, Q):
        if not stops[b, i].any():
            assert not weights[b, i].any()
            continue
        end = stops[b, i].argmax()
        outside = np.delete(weights[b, i], range(max(end - 2, 0), end + 1))
        assert weights[b, i].sum() == pytest.approx(1) and not outside.any()


def test_scores_far_apart_leave_no_chunk_without_weight():
    """Moving sums of exponentials underflow for the chunk of keys 0 and 1 in float32."""
    stops, scores = np.eye(4, dtype="float32")[1], np.array([0, 0, 500, 500], "float32")
    weights = chunkwise_weights(stops, scores, 2)
    np.testing.assert_allclose(weights, [0.5, 0.5, 0, 0], atol=1e-7)


def test_with_previous_weights_each_query_is_one_step():
    previous = RANDOM.dirichlet(np.ones(S), size=(B, Q))
    found = _layer(1)(QUERY, VALUE, previous_weights=previous, return_attention_scores=True)[1]
    monotonic = Attention("dot", MonotonicNormalizer("recursive", dtype="float64"), dtype="float64")
    expected = monotonic(QUERY, VALUE, previous_weights=previous, return_attention_scores=True)[1]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_keys_that_the_chunk_scorer_cannot_score_get_no_weight():
    layer = _layer(3, chunk_scorer=LocationScorer(5, dtype="float64"))
    weights = np.array(layer(QUERY, VALUE, return_attention_scores=True)[1])
    assert not weights[..., 5:].any() and weights[..., :5].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, "dot", "dot"), "`chunk_size` to be a positive int"),
        ((2, "dot", "dot", "softmax"), "`normalizer` to be a `MonotonicNormalizer`"),
        ((2, CoverageScorer(3), "dot"), "`scorer` not to read earlier weights.*CoverageScorer"),
        ((2, "dot", CoverageScorer(3)), "`chunk_scorer` not to read earlier weights"),
        ((2, *[GeneralScorer()] * 2), "expects two scorers"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MonotonicChunkwiseAttention(*arguments)
