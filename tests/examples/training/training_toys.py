"""A small translator of core layers and its batches, for the training tests."""

import keras
import numpy as np

VOCABULARY = 23
GROUPS = [(9, 5, 7), (5, 3, 5)]


def model(dropout=0.3, seed=11, width=7, dtype=None):
    """A functional model from source and target ids to logits, with dropout twice.

    It knows its source as a bag of words: what the training tests ask of it is seeds,
    an embedding used several times a batch, and a quick compilation.
    """
    keras.utils.set_random_seed(seed)
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    words = keras.layers.Embedding(VOCABULARY, width, dtype=dtype)
    bag = keras.ops.sum(words(source), axis=1, keepdims=True)
    states = keras.layers.Dropout(dropout, seed=seed, dtype=dtype)(words(target) + bag)
    states = keras.layers.Dense(width, activation="tanh", dtype=dtype)(states)
    states = keras.layers.Dropout(dropout, seed=seed + 1, dtype=dtype)(states)
    logits = keras.layers.Dense(VOCABULARY, dtype="float32")(states)
    return keras.Model({"source": source, "target": target}, logits)


def batch(rows, source, target, seed):
    """Random ids to copy, each row of its own length, padded with 0."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, target + 1, rows)
    labels = draw.integers(4, VOCABULARY, (rows, target)).astype("int32")
    labels[np.arange(target) >= lengths[:, None]] = 0
    labels[np.arange(rows), lengths - 1] = 3
    inputs = np.concatenate([np.full((rows, 1), 2, "int32"), labels[:, :-1]], axis=1)
    inputs[labels == 0] = 0
    source_ids = np.zeros((rows, source), "int32")
    source_ids[:, : min(source, target)] = labels[:, :source]
    return {"source": source_ids, "target": inputs}, labels
