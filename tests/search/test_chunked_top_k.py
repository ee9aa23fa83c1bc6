import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention.search.chunked_top_k import SMALL_VOCABULARY, choose_chunk_size, chunked_top_k


@pytest.mark.parametrize("vocabulary", [7, 500, 1009, 8000])  # 1009 is prime: a tail is left
@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_top_tokens_equal_a_plain_top_k(vocabulary, count, jit_compile):
    logits = np.random.default_rng(vocabulary).normal(size=(5, vocabulary)).astype("float32")
    values, ids = tf.function(chunked_top_k, jit_compile=jit_compile)(logits, count)
    expected = np.argsort(-logits, axis=1)[:, :count]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=1))


@pytest.mark.parametrize("vocabulary", [1009, 1200])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_equal_logits_come_in_the_order_of_their_ids(vocabulary, jit_compile):
    draw = np.random.default_rng(1)
    logits = draw.integers(0, 400, size=(37, vocabulary)).astype("float32")  # ties near the top
    logits[5] = 0.0
    _, ids = tf.function(chunked_top_k, jit_compile=jit_compile)(logits, 9)
    np.testing.assert_array_equal(ids, np.argsort(-logits, axis=1, kind="stable")[:, :9])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_most_probable_token_is_the_first_of_equal_ones(jit_compile):
    logits = np.random.default_rng(2).integers(0, 9, size=(5, 1009)).astype("float32")
    logits[3], logits[4] = -0.0, -1.0
    logits[3, 7], logits[4, [11, 13]] = 0.0, [-0.0, 0.0]
    values, ids = tf.function(chunked_top_k, jit_compile=jit_compile)(logits, 1)
    np.testing.assert_array_equal(ids[:, 0], logits.argmax(axis=1))
    np.testing.assert_array_equal(values[:, 0], logits.max(axis=1))


def test_best_tokens_of_one_chunk_or_of_the_tail_are_all_found():
    logits = np.zeros((3, 1009), "float32")
    logits[0, 100:110] = np.arange(10) + 1.0
    logits[1, -10:] = np.arange(10) + 1.0
    logits[2, [0, 1008]] = 2.0
    _, ids = chunked_top_k(tf.constant(logits), 6)
    np.testing.assert_array_equal(ids[0], np.arange(109, 103, -1))
    np.testing.assert_array_equal(ids[1], np.arange(1008, 1002, -1))
    np.testing.assert_array_equal(ids[2], [0, 1008, 1, 2, 3, 4])


def test_chunks_divide_common_vocabularies():
    for vocabulary in (8000, 16000, 32000):
        assert vocabulary % choose_chunk_size(vocabulary, 11) == 0
    assert 1009 % choose_chunk_size(1009, 6) and SMALL_VOCABULARY < 1009
