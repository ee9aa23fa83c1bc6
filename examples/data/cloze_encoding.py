"""Texts and candidates as ids: the same in training, evaluation and the exported graph."""

import numpy as np
import tensorflow as tf

from examples.data.buckets import split_into_buckets
from examples.data.cloze import GAP, ClozeQuestion
from examples.data.encoding import encode_rows, pad_rows
from keras_attention.export import tokenizers
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import UNKNOWN_ID

IDENTITIES = 2**24  # of words outside the vocabulary


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


def learn_words(
    questions: list[ClozeQuestion], vocabulary_size: int, min_frequency: int
) -> PointingTokenizer:
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


def load_words(directory) -> PointingTokenizer:
    """Returns the tokenizer that was saved into a directory.

    Raises:
        FileNotFoundError: If it is missing.
        ValueError: If it is damaged.
    """
    found = tokenizers.load(directory)
    return PointingTokenizer(found.vocabulary, symbols=found.symbols)


def encode_questions(
    questions: list[ClozeQuestion],
    tokenizer: WordTokenizer,
    max_words: int,
    num_buckets: int,
    batch_size: int,
):
    """Returns groups of `(inputs, labels, weights)` of few shapes, and the questions of each.

    Args:
        questions: The questions.
        tokenizer: What `learn_words` gave.
        max_words: Words of a document that are read.
        num_buckets: Groups at most.
        batch_size: Questions of a batch.

    Returns:
        A list of `({"document": (rows, document), "query": (rows, query), "candidates": (rows,
        candidates)}, {"probabilities": (rows,)}, (rows,))`: ids, the places of the right
        candidates, int32, and weights of 1; and a list of arrays, the places of the questions.
    """
    documents = encode_rows(tokenizer, [q.document for q in questions], max_words)
    queries = encode_rows(tokenizer, [q.query for q in questions])
    candidates = pad_rows(encode_rows(tokenizer, [" ".join(q.candidates) for q in questions]))
    answers = np.array([q.candidates.index(q.answer) for q in questions], np.int32)
    lengths = (np.array([len(row) for row in side]) for side in (documents, queries))
    buckets = split_into_buckets(*lengths, batch_size, num_buckets)
    groups = [
        (
            {
                "document": pad_rows([documents[place] for place in bucket]),
                "query": pad_rows([queries[place] for place in bucket]),
                "candidates": candidates[bucket],
            },
            {"probabilities": answers[bucket]},
            np.ones(len(bucket), np.float32),
        )
        for bucket in buckets
    ]
    return groups, buckets


def shuffle_candidates(inputs: dict, labels: dict, draw: np.random.RandomState):
    """Returns a batch whose candidates stand in a different order, row by row; for training."""
    candidates, answer = inputs["candidates"], labels["probabilities"]
    order = np.argsort(draw.random(candidates.shape) + 2.0 * (candidates == 0), axis=1)
    moved = np.argmax(order == answer[:, None], axis=1).astype(answer.dtype)
    return (
        {**inputs, "candidates": np.take_along_axis(candidates, order, axis=1)},
        {"probabilities": moved},
    )
