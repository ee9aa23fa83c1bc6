"""Texts and candidates as ids: the same in training, evaluation and the exported graph."""

import pathlib

import numpy as np
import tensorflow as tf

from examples.cloze.reading import GAP, Cloze
from examples.data.buckets import split_into_buckets
from keras_attention.export import tokenizers
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import UNKNOWN_ID

FOLDER = "words.tokenizer"
IDENTITIES = 2**24  # of words outside the vocabulary
CHUNK = 1024


class PointingTokenizer(WordTokenizer):
    """Words, of which those outside the vocabulary keep an identity.

    A name that was never seen has an id of its own, `vocabulary_size` or more, by which its
    mentions are found; what it means the model cannot know. A trained one is stored as the word
    tokenizer that it is beside that.

    Example:

    >>> tokenizer = PointingTokenizer(["the", "dog"])
    >>> ids = tokenizer.encode(["the Ratty dog Ratty Mole"])[0].numpy()[0].tolist()
    >>> ids[0], ids[2], ids[1] == ids[3] != ids[4], min(ids[1], ids[4]) >= 6
    (4, 5, True, True)
    """

    def _split_to_ids(self, texts):
        words = self.split(texts)
        ids = super()._split_to_ids(texts)
        hashed = tf.strings.to_hash_bucket_fast(words.flat_values, IDENTITIES)
        beyond = self.vocabulary_size + tf.cast(hashed, ids.dtype)
        return ids.with_flat_values(
            tf.where(ids.flat_values == UNKNOWN_ID, beyond, ids.flat_values)
        )


def learn(questions: list[Cloze], vocabulary_size: int, min_frequency: int) -> PointingTokenizer:
    """Returns a tokenizer of the most frequent words and the gap."""
    texts = (text for question in questions for text in (question.document, question.query))
    found = tokenizers.train(
        "words",
        texts,
        vocabulary_size=vocabulary_size,
        min_frequency=min_frequency,
        symbols=[GAP],
    )
    return PointingTokenizer(found.vocabulary, symbols=[GAP])


def load(directory) -> PointingTokenizer:
    """Returns the tokenizer of a run.

    Raises:
        FileNotFoundError: If it is missing.
        ValueError: If it is damaged.
    """
    found = tokenizers.load(pathlib.Path(directory) / FOLDER)
    return PointingTokenizer(found.vocabulary, symbols=found.symbols)


def encoded(
    questions: list[Cloze], tokenizer: WordTokenizer, max_words: int, max_shapes: int, batch_size
):
    """Returns groups of `(inputs, labels, weights)` of few shapes, and the questions of each.

    Args:
        questions: The questions.
        tokenizer: What `learn` gave.
        max_words: Words of a document that are read.
        max_shapes: Most groups.
        batch_size: Questions of a batch.

    Returns:
        A list of `({"document": (rows, document), "query": (rows, query), "candidates": (rows,
        candidates)}, {"probabilities": (rows,)}, (rows,))`: ids, the places of the right
        candidates, int32, and weights of 1; and a list of arrays, the places of the questions.
    """
    documents = _rows(tokenizer, [q.document for q in questions], max_words)
    queries = _rows(tokenizer, [q.query for q in questions], None)
    width = max(len(q.candidates) for q in questions)
    candidates = _rows(tokenizer, [" ".join(q.candidates) for q in questions], None)
    answers = np.array([q.candidates.index(q.answer) for q in questions], np.int32)
    lengths = (np.array([len(row) for row in side]) for side in (documents, queries))
    buckets = split_into_buckets(
        *lengths, lambda document, _: batch_size + 0 * document, max_shapes
    )
    groups = [
        (
            {
                "document": _padded(documents, bucket),
                "query": _padded(queries, bucket),
                "candidates": _padded(candidates, bucket, width),
            },
            {"probabilities": answers[bucket]},
            np.ones(len(bucket), np.float32),
        )
        for bucket in buckets
    ]
    return groups, buckets


def shuffled_candidates(inputs: dict, labels: dict, draw: np.random.RandomState):
    """Returns a batch whose candidates stand in another order, row by row; for training."""
    candidates, answer = inputs["candidates"], labels["probabilities"]
    order = np.argsort(draw.random(candidates.shape) + 2.0 * (candidates == 0), axis=1)
    moved = np.argmax(order == answer[:, None], axis=1).astype(answer.dtype)
    return (
        {**inputs, "candidates": np.take_along_axis(candidates, order, axis=1)},
        {"probabilities": moved},
    )


def _rows(tokenizer, texts, limit):
    rows = []
    for start in range(0, len(texts), CHUNK):
        ids, lengths = tokenizer.encode(texts[start : start + CHUNK], limit)
        rows += [row[:n] for row, n in zip(ids.numpy(), lengths.numpy(), strict=True)]
    return rows


def _padded(rows, places, width=None):
    width = width or max(len(rows[place]) for place in places)
    found = np.zeros((len(places), width), np.int32)
    for line, place in zip(found, places, strict=True):
        line[: len(rows[place])] = rows[place]
    return found
