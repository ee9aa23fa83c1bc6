"""Reversed sources: real tokens only, twice is once, the gradient, masks."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import ReverseTokens

B, T, D = 4, 5, 3
TOKENS = np.random.RandomState(0).randn(B, T, D)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]], bool)


def _reverse(tokens, mask):
    return np.array(ReverseTokens(dtype="float64")(tokens, mask=mask))


def test_real_tokens_are_reversed_and_padding_stays():
    result = _reverse(TOKENS, MASK)
    for row in range(B):
        np.testing.assert_array_equal(result[row, MASK[row]], TOKENS[row, MASK[row]][::-1])
        assert np.all(result[row, ~MASK[row]] == 0)
    np.testing.assert_array_equal(result[0], TOKENS[0, ::-1])


def test_it_is_what_tensorflow_does_to_padded_rows():
    lengths = np.array([5, 2, 4, 0])
    mask = np.arange(T) < lengths[:, None]
    tokens = np.where(mask[:, :, None], TOKENS, 0)
    expected = tf.reverse_sequence(tokens, lengths, seq_axis=1)
    np.testing.assert_array_equal(_reverse(tokens, mask), expected)


def test_reversed_twice_the_tokens_are_in_order_again():
    expected = np.where(MASK[:, :, None], TOKENS, 0)
    np.testing.assert_array_equal(_reverse(_reverse(TOKENS, MASK), MASK), expected)


def test_without_a_mask_all_is_reversed():
    np.testing.assert_array_equal(_reverse(TOKENS, None), TOKENS[:, ::-1])


def test_the_gradient_goes_to_the_place_its_token_came_from():
    tokens, asked = tf.constant(TOKENS), np.random.RandomState(1).randn(B, T, D)
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        cost = tf.reduce_sum(asked * ReverseTokens(dtype="float64")(tokens, mask=MASK))
    np.testing.assert_array_equal(tape.gradient(cost, tokens), _reverse(asked, MASK))


def test_an_encoder_reads_a_padded_source_from_its_last_token():
    # What it has read last is the first token: a plain sum that forgets by half tells.
    ids = keras.Input([None], dtype="int32")
    table = keras.layers.Embedding(9, 1, mask_zero=True)
    states = ReverseTokens()(table(ids))
    forget = keras.layers.SimpleRNN(
        1, "linear", kernel_initializer="ones", recurrent_initializer="ones", use_bias=False
    )
    model = keras.Model(ids, forget(states))
    table.embeddings.assign(np.arange(9.0)[:, None])
    forget.cell.recurrent_kernel.assign([[0.5]])
    result = model.predict(np.array([[4, 2, 8, 0, 0], [8, 2, 4, 2, 1]]), verbose=0)
    np.testing.assert_allclose(result[:, 0], [4 + 1 + 2, 8 + 1 + 1 + 2 / 8 + 1 / 16])


def test_only_sequences_of_vectors_are_taken():
    with pytest.raises(ValueError, match=r"\(batch, time, dim\). Received: inputs.shape=\(4, 5\)"):
        ReverseTokens()(TOKENS[:, :, 0])
