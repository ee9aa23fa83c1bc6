"""Sentence encodings of end-to-end memory networks, Sukhbaatar et al. 2015
(https://arxiv.org/abs/1503.08895), section 4.1.

    m_i  = sum_j l_j * A x_ij + T_A(i)
    l_kj = (1 - j/J) - (k/d) (1 - 2j/J)                        "paper"
    l_kj = 1 + 4 (k - (d+1)/2) (j - (J+1)/2) / (d J)           "centered", the authors' code

j and k count from 1. For "paper", j counts from the first word and J is the number of words in a
sentence; for "centered", whose values are about twice as large, J is the padded length. i counts
from the most recent sentence.

Code name -> paper name: `position_weights` -> l, `memory_ages` -> i - 1 (0 is the most recent).
"""

from keras import ops

from keras_attention._utils.counter_random import uniform
from keras_attention._utils.shapes import get_shape, reduce_rows

ENCODINGS = ("bag", "paper", "centered")


def position_weights(word_mask, units, encoding, dtype="float32"):
    """Returns l for sentences, `(..., words, units)`; None for a bag of words.

    Args:
        word_mask: Boolean `(..., words)`, True for words.
        units: Int, d.
        encoding: One of `ENCODINGS`.
        dtype: The dtype of the computation, float32 or wider.
    """
    if encoding == "bag":
        return None
    position = 1.0 + ops.cast(ops.arange(get_shape(word_mask)[-1]), dtype)  # j
    coordinate = 1.0 + ops.cast(ops.arange(units), dtype)  # k
    if encoding == "paper":
        words = ops.cast(word_mask, dtype)
        count = ops.cast(get_shape(word_mask)[-1], dtype)
        last, from_end = (
            reduce_rows(ops.max, words * places, axis=-1, keepdims=True)
            for places in (position, count + 1.0 - position)
        )
        before = count - from_end  # the places before the first word
        along = ((position - before) / ops.maximum(last - before, 1.0))[..., None]  # j / J
        return (1.0 - along) - coordinate / units * (1.0 - 2.0 * along)
    length = ops.cast(get_shape(word_mask)[-1], dtype)
    along = (position - (length + 1.0) / 2.0)[:, None]
    table = 1.0 + 4.0 * (coordinate - (units + 1.0) / 2.0) * along / (units * length)
    return ops.broadcast_to(table, (*get_shape(word_mask), units))


def encode_sentences(table, ids, weights):
    """Returns `sum_j l_j * E x_j`, `(..., units)`; the null word, id 0, adds nothing.

    Args:
        table: Float tensor `(vocabulary, units)`.
        ids: Int tensor `(..., words)`.
        weights: The result of `position_weights`.
    """
    words = ops.take(table, ids, axis=0)
    words = words * ops.cast(ids != 0, words.dtype)[..., None]
    return ops.sum(words if weights is None else words * ops.cast(weights, words.dtype), axis=-2)


def memory_ages(memory_mask):
    """Returns the number of more recent memories for each memory, int32 `(batch, memories)`.

    The last unmasked memory has age 0; masked memories do not count.
    """
    return _count_from_end(memory_mask) - ops.cast(memory_mask, "int32")


def add_temporal_rows(memories, rows, age, empty_age=None):
    """Adds the temporal row of its age to each memory; ages beyond the last row use the last.

    Args:
        memories: Float tensor `(batch, memories, units)`.
        rows: Float tensor `(memory_ages, units)`, T.
        age: Int tensor `(batch, memories)`.
        empty_age: Optional int tensor `(batch, empty)`: the ages of empty memories to append,
            which consist of their temporal row only.
    """
    last = rows.shape[0] - 1
    memories = memories + ops.take(rows, ops.clip(age, 0, last), axis=0)
    if empty_age is None:
        return memories
    empty = ops.take(rows, ops.clip(empty_age, 0, last), axis=0)
    return ops.concatenate([memories, empty], axis=1)


def insert_empty_memories(memory_mask, rate, seed_generator):
    """Samples empty memories to insert between the real ones while training.

    With probability `rate`, one is inserted next to each memory, on its more recent side.

    Returns:
        The ages of the real memories, those of the empty ones, both int32
        `(batch, memories)`, and boolean `(batch, memories)`: which empty ones exist.
    """
    drawn = uniform(get_shape(memory_mask), seed_generator) < rate
    drawn = ops.logical_and(drawn, memory_mask)
    real = memory_ages(memory_mask) + _count_from_end(drawn)
    return real, real - 1, drawn


def _count_from_end(mask):
    """Returns the number of True values from each position on."""
    counts = ops.cumsum(ops.flip(ops.cast(mask, "int32"), axis=1), axis=1)
    return ops.flip(counts, axis=1)
