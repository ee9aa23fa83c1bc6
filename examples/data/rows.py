"""Batches of rows that lie padded in memory, in an order that a resumed run can take up again."""

import hashlib

import keras
import numpy as np
import tensorflow as tf

from examples.data.order import frozen_draw
from keras_attention import validation


class RowBatches:
    """Rows in batches of one shape a group, shuffled by `(seed, epoch)` alone.

    Args:
        groups: List of `(inputs, labels)` or `(inputs, labels, weights)`, dicts of arrays or
            arrays, whose dimension 0 counts the rows of the group. Dimensions may differ between
            groups; XLA compiles a program for each. A row of labels, or of weights, that are 0 is
            no row. `groups` keeps those that have rows.
        batch_size: Positive int.
        seed: Int of at least 0, the seed of the order.
        is_training: Whether rows are shuffled and batches are whole: what is left over in an
            epoch waits for the next, which has a different order. Otherwise every row comes, in
            order, and the last batch is filled up with zeros, as is that of a group with fewer
            rows than a batch.
        vary: Optional function `(inputs, labels, draw) -> (inputs, labels)` of the arrays of a
            training batch, whose weights it leaves as they are; the random numbers of `draw`
            depend on `(seed, epoch, batch)` alone.
        drop_remainder: Whether what is left over in an epoch of training waits; otherwise it fills
            a last batch up with zeros, and every row comes.

    Raises:
        ValueError: If there is no row, or a number lies outside its range.

    Example:

    >>> group = ({"words": np.arange(1, 6)[:, None]}, {"answer": np.arange(1, 6)})
    >>> batches = RowBatches([group], batch_size=2, seed=1, is_training=False)
    >>> [labels["answer"].numpy().tolist() for _, labels in batches.epoch(0)]
    [[1, 2], [3, 4], [5, 0]]
    """

    def __init__(
        self,
        groups,
        batch_size: int,
        seed: int = 0,
        is_training: bool = True,
        vary=None,
        drop_remainder: bool = True,
    ):
        owner = "RowBatches"
        self.batch_size = validation.check_positive_int(owner, "batch_size", batch_size)
        self.seed = validation.check_int_at_least(owner, "seed", seed, 0)
        self.is_training, self.vary, self.drop_remainder = is_training, vary, drop_remainder
        self.groups = [group for group in groups if _rows(group)]
        if not self.groups:
            raise ValueError(f"{owner} expects at least one row. Received: groups without rows")

    @property
    def num_rows(self) -> int:
        """Rows in all groups."""
        return sum(_rows(group) for group in self.groups)

    def shapes(self) -> list[tuple]:
        """Returns the shapes that are compiled, one a group."""
        return [
            tuple((self.batch_size, *array.shape[1:]) for array in inputs.values())
            for inputs, *_ in self.groups
        ]

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return sum(map(self._count, self.groups))

    def epoch(self, number: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch, like the groups, from batch `start` on."""
        plan = self._plan(number)
        example = tf.nest.map_structure(lambda array: array[:0], self.groups[0])
        flat = tf.nest.flatten(example)

        def gather(batch):
            group, rows = plan[int(batch)]
            arrays = tf.nest.map_structure(
                lambda array: self._batch(array, rows), self.groups[group]
            )
            if self.is_training and self.vary is not None:
                draw = frozen_draw(self.seed, number, int(batch))
                arrays = (*self.vary(*arrays[:2], draw), *arrays[2:])
            return tf.nest.flatten(arrays)

        def as_tensors(batch):
            tensors = tf.numpy_function(gather, [batch], [array.dtype for array in flat])
            for tensor, array in zip(tensors, flat, strict=True):
                tensor.set_shape((self.batch_size, *(None for _ in array.shape[1:])))
            return tf.nest.pack_sequence_as(example, tensors)

        with tf.device("CPU"):  # the pipeline runs there, whatever the model runs on
            return (
                tf.data.Dataset.range(start, len(plan)).map(as_tensors).prefetch(tf.data.AUTOTUNE)
            )

    def digest(self) -> str:
        """Returns a string that changes with any number of the rows."""
        sha = hashlib.sha256()
        for array in tf.nest.flatten(self.groups):
            sha.update(repr(array.shape).encode())
            sha.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return sha.hexdigest()

    def _plan(self, epoch):
        """Returns (number of the group, its rows) of every batch."""
        draw = frozen_draw(self.seed, epoch)
        plan = []
        for number, group in enumerate(self.groups):
            rows = np.arange(_rows(group))
            if self.is_training:
                draw.shuffle(rows)
            plan += [
                (number, rows[n * self.batch_size : (n + 1) * self.batch_size])
                for n in range(self._count(group))
            ]
        return [plan[place] for place in draw.permutation(len(plan))] if self.is_training else plan

    def _batch(self, array, rows):
        batch = np.zeros((self.batch_size, *array.shape[1:]), array.dtype)
        batch[: len(rows)] = array[rows]
        return batch

    def _count(self, group):
        if self.is_training and self.drop_remainder:
            return max(1, _rows(group) // self.batch_size)
        return -(-_rows(group) // self.batch_size)

    def __str__(self) -> str:
        return (
            f"{self.num_rows:,} rows in {self.batches_per_epoch():,} batches of "
            f"{self.batch_size}, {len(self.groups)} shapes"
        )


def predict_rows(
    model: keras.Model, groups: list, places: list[np.ndarray], batch_size: int
) -> list[dict[str, np.ndarray]]:
    """Returns the outputs of a model for each row.

    Args:
        model: Model with a dict of outputs.
        groups: As for `RowBatches`.
        places: For each group the places of its rows in the list that is returned.
        batch_size: Positive int.
    """
    found = [{}] * sum(map(len, places))
    for group, of_group in zip(groups, places, strict=True):
        batches = RowBatches([group], batch_size, is_training=False)
        outputs = [model.predict_on_batch(inputs) for inputs, *_ in batches.epoch(0)]
        joined = {name: np.concatenate([o[name] for o in outputs]) for name in outputs[0]}
        for line, place in enumerate(of_group):
            found[place] = {name: array[line] for name, array in joined.items()}
    return found


def _rows(group):
    return len(tf.nest.flatten(group)[0])
