"""Attention over attention: worked numbers, the paper's sums by hand, masks, bad input."""

import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from tf_or_skip import tf

from keras_attention import AttentionOverAttention

B, D, Q, H = 3, 7, 5, 2
RANDOM = np.random.RandomState(1)
DOCUMENT, QUERY = RANDOM.randn(B, D, H), RANDOM.randn(B, Q, H)
DOCUMENT_MASK = np.arange(D) < np.array([[7], [3], [0]])
QUERY_MASK = np.arange(Q) < np.array([[2], [5], [4]])


def test_the_worked_numbers():
    document = np.array([[[1.0, 0], [0, 1], [1, 1]]])
    query = np.array([[[1.0, 1], [0, 1]]])
    attention = AttentionOverAttention(dtype="float64")
    weights, alpha, beta = attention(document, query, return_attention_scores=True)
    expected = [[0.211942, 0.155362], [0.211942, 0.422319], [0.576117, 0.422319]]
    np.testing.assert_allclose(np.array(alpha)[0], expected, atol=5e-7)
    np.testing.assert_allclose(np.array(beta)[0], [0.654039, 0.345961], atol=5e-7)
    np.testing.assert_allclose(np.array(weights)[0], [0.192367, 0.284724, 0.522909], atol=5e-7)


def _softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def test_it_is_the_papers_arithmetic_over_real_words():
    results = AttentionOverAttention(dtype="float64")(
        DOCUMENT,
        QUERY,
        document_mask=DOCUMENT_MASK,
        query_mask=QUERY_MASK,
        return_attention_scores=True,
    )
    weights, alpha, beta = map(np.array, results)
    for row, (length, words) in enumerate(((7, 2), (3, 5))):
        matches = DOCUMENT[row, :length] @ QUERY[row, :words].T
        columns = np.stack([_softmax(matches[:, j]) for j in range(words)], axis=1)
        rows = np.mean([_softmax(matches[i]) for i in range(length)], axis=0)
        np.testing.assert_allclose(alpha[row, :length, :words], columns, atol=1e-12)
        np.testing.assert_allclose(beta[row, :words], rows, atol=1e-12)
        np.testing.assert_allclose(weights[row, :length], columns @ rows, atol=1e-12)
        np.testing.assert_allclose(weights[row].sum(), 1, atol=1e-12)
        assert np.all(alpha[row, length:] == 0) and np.all(alpha[row, :, words:] == 0)
        assert np.all(weights[row, length:] == 0) and np.all(beta[row, words:] == 0)
    assert np.all(weights[2] == 0) and np.all(alpha[2] == 0) and np.all(beta[2] == 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16"])
def test_weights_of_a_long_document_sum_to_one_in_low_precision(dtype):
    random = np.random.RandomState(3)
    document, query = random.randn(2, 3001, 8), random.randn(2, Q, 8)
    weights = AttentionOverAttention(dtype=dtype)(document, query)
    sums = np.array(tf.cast(weights, "float64")).sum(axis=1)
    np.testing.assert_allclose(sums, 1, atol=5e-3)


def test_gradients_agree_with_differences():
    attention, document, query = (
        AttentionOverAttention(dtype="float64"),
        tf.Variable(DOCUMENT),
        tf.Variable(QUERY),
    )
    assert_gradients_are_right(
        lambda: attention(
            tf.convert_to_tensor(document),
            tf.convert_to_tensor(query),
            document_mask=DOCUMENT_MASK,
            query_mask=QUERY_MASK,
        ),
        [document, query],
    )


def test_a_query_of_one_word_is_attention_by_dot_products():
    weights = AttentionOverAttention(dtype="float64")(DOCUMENT, QUERY[:, :1])
    for row in range(B):
        expected = _softmax(DOCUMENT[row] @ QUERY[row, 0])
        np.testing.assert_allclose(np.array(weights)[row], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: AttentionOverAttention("sofmax"), "`Normalizer` object or one of"),
        (lambda: AttentionOverAttention()(DOCUMENT[0], QUERY), r"\(batch, document, dim\)"),
        (lambda: AttentionOverAttention()(DOCUMENT, QUERY[:2]), "same size on axis 0"),
        (
            lambda: AttentionOverAttention()(DOCUMENT, QUERY[..., :1]),
            "axis 2.*`keras.layers.Dense`",
        ),
        (
            lambda: AttentionOverAttention()(DOCUMENT, QUERY, query_mask=DOCUMENT_MASK),
            r"`query_mask` of shape \(batch, query\)",
        ),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
