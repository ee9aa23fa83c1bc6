"""Subwords on real text: the graph against the `sentencepiece` library, and text that comes back.

The lines are those of Multi30k, in the folder that `data_folder.py` names; without them the tests
are skipped.
"""

import gzip

import numpy as np
import pytest
import tensorflow as tf
from data_folder import DATA

from keras_attention.export import tokenizers

RAW_LINES = DATA / "multi30k" / "raw"
NUM_LINES = 10_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lines():
    path = RAW_LINES / "train.de.gz"
    if not path.is_file():
        pytest.skip(f"NOT RUN: the real lines are missing, {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [line.rstrip("\n") for _, line in zip(range(NUM_LINES), file, strict=False)]
    assert len(found) == NUM_LINES
    return found


def batches(lines, size=1000):
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def rows(ids, lengths):
    pairs = zip(ids.numpy(), lengths.numpy(), strict=True)
    return [row[:length].tolist() for row, length in pairs]


def texts_of(tensor):
    return [text.decode() for text in tensor.numpy()]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_the_graph_says_what_the_sentencepiece_library_says(model_type, lines):
    sentencepiece = pytest.importorskip("sentencepiece")
    tokenizer = tokenizers.train(
        "sentencepiece", lines, vocabulary_size=2003, model_type=model_type
    )
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.get_content())
    for batch in batches(lines):
        normal = texts_of(tokenizer.normalize(tf.constant(batch)))
        expected = library.encode(normal)
        found = rows(*tokenizer.encode(batch))
        assert found == expected
        decoded = texts_of(tokenizer.decode(tf.ragged.constant(found).to_tensor()))
        assert decoded == library.decode(expected) == normal


def test_wordpiece_gives_real_lines_back(lines):
    lines = lines[:5000]
    tokenizer = tokenizers.train("wordpiece", lines, vocabulary_size=3001)
    assert 2500 < tokenizer.vocabulary_size <= 3001
    lengths = []
    for batch in batches(lines):
        normal = texts_of(tokenizer.normalize(tf.constant(batch)))
        ids, length = tokenizer.encode(batch)
        assert texts_of(tokenizer.decode(ids)) == normal
        lengths.extend(length.numpy() / [len(text.split()) for text in normal])
    assert 1.0 < np.mean(lengths) < 1.7  # pieces a word
