"""Batches that are drawn while a model trains: batch k of epoch e depends on (seed, e, k) alone.

So a run that was killed goes on at any batch, without drawing those before it again.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf


def generator_of(*numbers: int) -> np.random.Generator:
    """Returns random numbers that depend on `numbers` alone, such as seed, epoch and batch.

    Args:
        *numbers: Ints from 0 to below 2**64.

    Example:

    >>> first, again, other = (generator_of(*three) for three in ((1, 0, 2), (1, 0, 2), (1, 2, 0)))
    >>> number = first.random()
    >>> number == again.random(), number == other.random()
    (True, False)
    """
    # Two words a number: NumPy takes [2**32 + 1, 0, 0] and [1, 1, 0] for the same seed.
    return np.random.default_rng(np.array(numbers, np.uint64).view(np.uint32))


def prefetch_draws(draw: Callable, specs, start: int, count: int) -> tf.data.Dataset:
    """Returns the batches from number `start` to below `count`, drawn ahead of the training.

    Args:
        draw: Function from the number of a batch to arrays in the structure of `specs`.
        specs: Nest of `tf.TensorSpec`; sizes that differ between batches are None.
        start: Int of at least 0, how many batches to pass over.
        count: Int, how many there are.

    Example:

    >>> specs = {"square": tf.TensorSpec((1,), tf.int32)}
    >>> batches = prefetch_draws(lambda n: {"square": np.array([n * n], np.int32)}, specs, 2, 4)
    >>> [batch["square"].numpy().tolist() for batch in batches]
    [[4], [9]]
    """
    flat = tf.nest.flatten(specs)

    def as_tensors(batch):
        tensors = tf.numpy_function(
            lambda number: tf.nest.flatten(draw(int(number))),
            [batch],
            [spec.dtype for spec in flat],
        )
        for tensor, spec in zip(tensors, flat, strict=True):
            tensor.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(specs, tensors)

    with tf.device("CPU"):  # the pipeline runs there, whatever the model runs on
        return tf.data.Dataset.range(start, count).map(as_tensors).prefetch(tf.data.AUTOTUNE)
