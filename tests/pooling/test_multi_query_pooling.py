"""Multi-query pooling: contexts side by side, without projections."""

import keras
import numpy as np
import pytest

from keras_attention import Attention, MultiQueryPooling

B, M, S, DQ, DV = 3, 2, 7, 5, 11
RANDOM = np.random.RandomState(1)
QUERY, KEY, VALUE = RANDOM.randn(B, M, DQ), RANDOM.randn(B, S, DQ), RANDOM.randn(B, S, DV)
MASK = np.arange(S) < np.array([[7], [3], [0]])


def test_it_is_one_weighted_mean_a_query_in_a_row():
    pooling = MultiQueryPooling("dot", dtype="float64")
    pooled, weights = pooling(QUERY, VALUE, KEY, value_mask=MASK, return_attention_scores=True)
    assert pooling.weights == [], "nothing is projected"
    assert tuple(pooled.shape) == (B, M * DV) and tuple(weights.shape) == (B, M, S)
    for row, length in enumerate((7, 3)):
        parts = []
        for query in QUERY[row]:
            scores = np.exp(KEY[row, :length] @ query)
            parts.append(scores / scores.sum() @ VALUE[row, :length])
        np.testing.assert_allclose(np.array(pooled)[row], np.concatenate(parts), atol=1e-12)
    assert np.all(np.array(pooled)[2] == 0)


def test_one_query_is_attention_with_a_query_of_rank_2():
    pooled = MultiQueryPooling("dot")(QUERY[:, :1], VALUE, KEY)
    context = Attention("dot")(QUERY[:, 0], VALUE, KEY)
    np.testing.assert_allclose(np.array(pooled), np.array(context), atol=1e-6)


def test_a_symbolic_call_takes_keys_of_another_width_than_values():
    inputs = [keras.Input(tensor.shape[1:]) for tensor in (QUERY, VALUE, KEY)]
    assert tuple(MultiQueryPooling("dot")(*inputs).shape) == (None, M * DV)


def test_a_masked_query_leaves_its_part_empty():
    kept = np.array([[True, False], [False, True], [True, True]])
    pooled = np.array(MultiQueryPooling("general")(QUERY, VALUE, query_mask=kept))
    assert np.array_equal(pooled.reshape(B, M, DV).any(-1), kept)


def test_the_order_of_queries_is_the_order_of_contexts():
    pooling = MultiQueryPooling("dot")
    pooled = np.array(pooling(QUERY, VALUE, KEY)).reshape(B, M, DV)
    turned = np.array(pooling(QUERY[:, ::-1], VALUE, KEY)).reshape(B, M, DV)
    np.testing.assert_allclose(turned, pooled[:, ::-1], atol=1e-6)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: MultiQueryPooling("addictive"), "`Scorer` object or one of"),
        (lambda: MultiQueryPooling(dropout=1.0), r"`dropout`.*\[0, 1\)"),
        (lambda: MultiQueryPooling("general")(QUERY[:, 0], VALUE), "For one query use `Attention`"),
        (lambda: MultiQueryPooling("dot")(QUERY, VALUE), "of equal width"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
