"""Where a model that chooses its glimpses begins, and how its choices vary."""

from collections.abc import Callable

import tensorflow as tf

from examples.digits.batches import intensities


def random(glimpses: int) -> Callable:
    """Returns what `DrawnBatches` draws for training: the first location and all noise."""

    def draw(inputs, digit, seed):
        image = inputs["image"]
        batch = tf.shape(image)[0]
        seeds = tf.random.split(seed, 2)
        return {
            "image": intensities(image),
            "start": tf.random.stateless_uniform((batch, 2), seeds[0], -1.0, 1.0),
            "noise": tf.random.stateless_normal((batch, glimpses - 1, 2), seeds[1]),
        }, digit

    return draw


def intended(glimpses: int) -> Callable:
    """Returns what `DrawnBatches` adds for evaluation: nothing random.

    The first glimpse is of the middle, the others are where the model means to look.
    """

    def draw(inputs, digit, seed):
        image = inputs["image"]
        batch = tf.shape(image)[0]
        return {
            "image": intensities(image),
            "start": tf.zeros((batch, 2)),
            "noise": tf.zeros((batch, glimpses - 1, 2)),
        }, digit

    return draw
