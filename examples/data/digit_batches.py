"""Batches of the images of MNIST, to which random numbers are added as they are made."""

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from examples.data.idx import read_mnist
from examples.data.order import frozen_draw
from examples.data.rows import RowBatches


class DrawnBatches:
    """Batches of rows to which random numbers are added, a function of (seed, epoch, batch).

    A model has no randomness of its own then: what is drawn is an input, and a run that was
    interrupted goes on with the same numbers.

    Args:
        rows: The `RowBatches`.
        draw: Function `(inputs, digit, seed) -> (inputs, labels)` of the tensors of a batch,
            where `digit` is from 0 on and `seed` of the kind of `tf.random.stateless_normal`.

    Example:

    >>> rows = RowBatches([({"image": np.ones((3, 1))}, {"digit": np.ones(3)})], batch_size=3)
    >>> def draw(inputs, digit, seed):
    ...     return {**inputs, "noise": tf.random.stateless_normal((3,), seed)}, digit
    >>> batches = DrawnBatches(rows, draw)
    >>> once, again = (next(iter(batches.epoch(4)))[0]["noise"] for _ in range(2))
    >>> bool(tf.reduce_all(once == again))
    True
    """

    def __init__(self, rows: RowBatches, draw: Callable):
        self.rows, self.draw = rows, draw

    @property
    def seed(self) -> int:
        """The seed of the order, and of what is drawn."""
        return self.rows.seed

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return self.rows.batches_per_epoch(epoch)

    def epoch(self, number: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch from batch `start` on.

        They are `(inputs, labels, weights)`; a row that only fills a batch up has the weight 0.
        """
        of_epoch = int(frozen_draw(self.seed, number, 1).randint(2**31 - 1))

        def draw_batch(place, batch):
            (inputs, labels), seed = batch, tf.stack([tf.constant(of_epoch, tf.int64), place])
            inputs, drawn_labels = self.draw(inputs, tf.maximum(labels["digit"] - 1, 0), seed)
            return inputs, drawn_labels, tf.cast(labels["digit"] > 0, tf.float32)

        with tf.device("CPU"):
            dataset = self.rows.epoch(number, start).enumerate(start)
            return dataset.map(draw_batch).prefetch(tf.data.AUTOTUNE)

    def digest(self) -> str:
        """Returns a string that changes with any image."""
        return self.rows.digest()

    def __str__(self) -> str:
        return str(self.rows)


def read_rows(folder: str | pathlib.Path, part: str, max_examples: int | None = None):
    """Returns a group of rows for `RowBatches`, the images of a part and their digits.

    Args:
        folder: Where the files of MNIST are.
        part: "train", "validation" or "test".
        max_examples: The first so many; None for all.

    Returns:
        `{"image": (rows, height, width)}`, uint8, and `{"digit": (rows,)}`, int32: the digit and
        1, so that 0 is no image.
    """
    images, digits = (array[:max_examples] for array in read_mnist(folder, part))
    return {"image": images}, {"digit": 1 + digits.astype(np.int32)}


def scale_image(image):
    """Returns uint8 images as float32 from 0 to 1."""
    return tf.cast(image, tf.float32) / 255.0
