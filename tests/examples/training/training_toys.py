"""Small translators of core layers and batches of three shapes, for the training tests."""

import keras
import numpy as np
import tensorflow as tf

VOCABULARY = 23


def model(dropout=0.3, seed=11, width=7):
    """A functional model from source and target ids to logits, with dropout twice.

    It knows its source as a bag of words: what the training tests ask of it is seeds,
    an embedding used several times a batch, and a quick compilation.
    """
    keras.utils.set_random_seed(seed)
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    words = keras.layers.Embedding(VOCABULARY, width)
    bag = keras.ops.sum(words(source), axis=1, keepdims=True)
    states = keras.layers.Dropout(dropout, seed=seed)(words(target) + bag)
    states = keras.layers.Dense(width, activation="tanh")(states)
    states = keras.layers.Dropout(dropout, seed=seed + 1)(states)
    logits = keras.layers.Dense(VOCABULARY, dtype="float32")(states)
    return keras.Model({"source": source, "target": target}, logits)


def recurrent_model(dropout=0.3, seed=11, width=7):
    """The same with a decoder that is a loop."""
    keras.utils.set_random_seed(seed)
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    words = keras.layers.Embedding(VOCABULARY, width)
    bag = keras.ops.sum(words(source), axis=1)
    states = keras.layers.Dropout(dropout, seed=seed)(words(target))
    states = keras.layers.RNN(keras.layers.SimpleRNNCell(width, seed=seed), return_sequences=True)(
        states, initial_state=bag
    )
    logits = keras.layers.Dense(VOCABULARY, dtype="float32")(states)
    return keras.Model({"source": source, "target": target}, logits)


def normalized_model():
    """A model with a batch normalization that trains, one that is frozen, and dropout."""
    source, target = (keras.Input([None], dtype="int32", name=n) for n in ("source", "target"))
    words = keras.layers.Embedding(VOCABULARY, 7)(target)
    for trainable in (True, False):
        words = keras.layers.BatchNormalization(momentum=0.5, trainable=trainable)(words)
    logits = keras.layers.Dense(VOCABULARY)(keras.layers.Dropout(0.3, seed=1)(words))
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


class Batches:
    """Stands in for the training data: order a pure function of (seed, epoch)."""

    SHAPES = [(6, 5, 7), (6, 3, 5), (6, 5, 3)]

    def __init__(self, seed=5, count=8, shapes=3):
        self.seed, self.count = seed, count
        self.all = [batch(*self.SHAPES[i % shapes], seed=100 + i) for i in range(count)]

    def batches_per_epoch(self, epoch):
        return self.count

    def epoch(self, epoch, start=0):
        order = np.random.default_rng([self.seed, epoch]).permutation(self.count)[start:]

        def generate():
            yield from (self.all[i] for i in order)

        ids = tf.TensorSpec([None, None], tf.int32)
        return tf.data.Dataset.from_generator(
            generate, output_signature=({"source": ids, "target": ids}, ids)
        )


def dev_batches(count=2):
    """Batches to evaluate on, as tensors, each of its own shape."""
    shapes = [(4, 5, 7), (3, 3, 5)][:count]
    return [
        tf.nest.map_structure(tf.constant, batch(*shape, seed=900 + i))
        for i, shape in enumerate(shapes)
    ]


class Quiet:
    """A progress display that keeps its messages."""

    def __init__(self):
        self.messages, self.updates = [], []

    def start(self, title, total, done):
        self.title = title

    def update(self, done, loss, speed, left):
        self.updates.append((done, loss))

    def message(self, text):
        self.messages.append(text)

    def close(self):
        pass
