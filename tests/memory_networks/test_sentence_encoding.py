"""Sentences as vectors: both position encodings, the ages of memories, empty memories."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.memory_networks._sentence_encoding import (
    add_temporal_rows,
    encode_sentences,
    insert_empty_memories,
    memory_ages,
    position_weights,
)

# Rows k = 1..4 for a sentence of three words.
PAPER = [
    [0.583333, 0.416667, 0.25],
    [0.5, 0.5, 0.5],
    [0.416667, 0.583333, 0.75],
    [0.333333, 0.666667, 1],
]
CENTERED = [
    [1.5, 1, 0.5],
    [1.166667, 1, 0.833333],
    [0.833333, 1, 1.166667],
    [0.5, 1, 1.5],
]


@pytest.mark.parametrize(("encoding", "table"), [("paper", PAPER), ("centered", CENTERED)])
def test_the_worked_numbers(encoding, table):
    weights = position_weights(ops.ones((2, 3), "bool"), 4, encoding, "float64")
    for row in np.array(weights):
        np.testing.assert_allclose(row.T, table, atol=5e-7)


def test_the_papers_encoding_counts_the_words_of_each_sentence():
    mask = np.arange(7) < np.array([[3], [5], [0]])
    weights = np.array(position_weights(mask, 4, "paper", "float64"))
    for row, length in enumerate((3, 5)):
        alone = np.array(position_weights(np.ones((1, length), bool), 4, "paper", "float64"))
        np.testing.assert_allclose(weights[row, :length], alone[0], atol=1e-12)
    assert np.all(np.isfinite(weights))


def test_the_null_word_adds_nothing():
    table, ids = np.random.RandomState(1).randn(7, 5), np.array([[3, 0, 2, 0]])
    bag = encode_sentences(ops.convert_to_tensor(table), ids, None)
    np.testing.assert_allclose(np.array(bag)[0], table[3] + table[2], atol=1e-12)
    weights = position_weights(ids != 0, 5, "paper", "float64")
    encoded = np.array(encode_sentences(ops.convert_to_tensor(table), ids, weights))
    k, length = np.arange(1, 6), 3  # the last word stands third
    expected = sum(
        ((1 - j / length) - k / 5 * (1 - 2 * j / length)) * table[word]
        for j, word in ((1, 3), (3, 2))
    )
    np.testing.assert_allclose(encoded[0], expected, atol=1e-12)


def test_ages_count_real_memories_from_the_last():
    mask = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]], bool)
    result = np.array(memory_ages(mask))
    assert result[mask].tolist() == [3, 2, 1, 0, 1, 0]


def test_temporal_rows_follow_the_age_and_end_with_the_last():
    rows = ops.convert_to_tensor(np.arange(3.0)[:, None])
    timed = add_temporal_rows(ops.zeros((1, 4, 1), "float64"), rows, np.array([[5, 2, 1, 0]]))
    assert np.array(timed)[0, :, 0].tolist() == [2, 2, 1, 0]


def test_empty_memories_stand_between_the_real_ones():
    mask = np.arange(200) < np.array([[200], [150], [0]])
    drawn = insert_empty_memories(mask, 0.1, keras.random.SeedGenerator(1))
    real, empty_age, empty = map(np.array, drawn)
    assert not empty[~mask].any()
    for row, count in enumerate((200, 150)):
        taken = np.concatenate([real[row, mask[row]], empty_age[row, empty[row]]])
        total = count + empty[row].sum()
        assert sorted(taken) == list(range(total)), "each age once, none left out"
        assert np.all(np.diff(real[row, mask[row]]) < 0), "the order of the story stays"
    assert 0.05 < empty[mask].mean() < 0.15


def test_no_empty_memories_at_rate_zero():
    mask = np.ones((2, 5), bool)
    real, _, empty = insert_empty_memories(mask, 0.0, keras.random.SeedGenerator(1))
    assert not np.any(np.array(empty))
    np.testing.assert_array_equal(np.array(real), np.array(memory_ages(mask)))


def test_the_papers_encoding_counts_from_the_first_word():
    mask = np.arange(7) < 3
    right, left = (position_weights(one[None], 4, "paper", "float64") for one in (mask, mask[::-1]))
    np.testing.assert_allclose(np.array(left)[0, 4:], np.array(right)[0, :3], atol=1e-12)
