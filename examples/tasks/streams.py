"""Endless data in epochs: batch k of epoch e is a function of (seed, e, k) alone.

So a run that was killed goes on at any batch, without drawing those before it again.
"""

import hashlib
import itertools

import numpy as np
import tensorflow as tf

from examples.data.buckets import split_into_buckets
from examples.data.drawn import generator_of, prefetch_draws
from examples.tasks.base import Example, Task
from keras_attention import validation


class LinearCurriculum:
    """Short sequences first: the upper end of every range grows linearly with the epochs.

    Args:
        epochs: Positive int. Epoch 0 has the lower ends only, this epoch and all later ones
            the full ranges.

    Example:

    >>> curriculum = LinearCurriculum(epochs=10)
    >>> [curriculum.ranges({"length": (1, 20)}, epoch)["length"] for epoch in (0, 5, 10, 11)]
    [(1, 1), (1, 10), (1, 20), (1, 20)]
    """

    def __init__(self, epochs: int):
        self.epochs = validation.check_positive_int("LinearCurriculum", "epochs", epochs)

    def ranges(self, full: dict[str, tuple[int, int]], epoch: int) -> dict[str, tuple[int, int]]:
        """Returns the ranges of an epoch; `full` are those at the end."""
        passed = min(epoch, self.epochs)
        return {
            name: (low, low + (high - low) * passed // self.epochs)
            for name, (low, high) in full.items()
        }


class Stream:
    """Batches of a task, padded to a few lengths, in epochs of a fixed number.

    All sequences of a batch have one length, so what is padded is only what brings it to the
    next of at most `max_shapes` lengths; XLA compiles a program for each.

    Args:
        task: A `Task`.
        batch_size: Positive int, sequences in a batch.
        batches_per_epoch: Positive int.
        seed: Int of at least 0, below 2**64. Held-out data is a stream of a different seed.
        curriculum: A `LinearCurriculum`, or None for the full ranges from the start.
        max_shapes: Positive int, most lengths; fewer where one more would save too little.
        **sizes: Ranges (low, high), or ints, in place of the task's own.

    Raises:
        ValueError: If an argument lies outside its range, the task has no such size, sizes do
            not fit each other, or a curriculum has no range to widen.

    Example:

    >>> from examples.tasks import find
    >>> stream = Stream(find("copy"), batch_size=3, batches_per_epoch=7, seed=1, length=(1, 5))
    >>> stream.shapes()
    [(3, 3), (3, 5), (3, 7), (3, 9), (3, 11)]
    >>> inputs, targets, due = next(iter(stream.epoch(0)))
    >>> [tuple(tensor.shape) for tensor in (inputs["inputs"], targets, due)]
    [(3, 9, 9), (3, 9, 8), (3, 9)]
    """

    def __init__(
        self,
        task: Task,
        batch_size: int,
        batches_per_epoch: int,
        seed: int,
        curriculum: LinearCurriculum | None = None,
        max_shapes: int = 5,
        **sizes,
    ):
        owner = "Stream"
        if not isinstance(task, Task):
            raise ValueError(
                f"{owner} expects `task` to be a Task; `examples.tasks.find` gives one by its "
                f"name. Received: task={task!r}"
            )
        self.task = task
        self.batch_size = validation.check_positive_int(owner, "batch_size", batch_size)
        self.seed = validation.check_int_at_least(owner, "seed", seed, 0)
        validation.check_number_in_range(owner, "seed", seed, 0, 2**64, exclude_high=True)
        self.curriculum = curriculum
        self.ranges = task.ranges(**sizes)
        task.check(self.ranges)
        self._num_batches = validation.check_positive_int(
            owner, "batches_per_epoch", batches_per_epoch
        )
        validation.check_positive_int(owner, "max_shapes", max_shapes)
        if curriculum is not None and all(low == high for low, high in self.ranges.values()):
            raise ValueError(
                f"{owner} expects a size with a range where there is a curriculum, and every size "
                f"of the task {task.name} is fixed. Leave the curriculum out. "
                f"Received: sizes={self.ranges}"
            )
        self._times = self._bucket_lengths(max_shapes)

    def shapes(self) -> list[tuple[int, int]]:
        """Returns the (batch, time) shapes that batches are padded to, the shortest first."""
        return [(self.batch_size, time) for time in self._times]

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return self._num_batches

    def epoch(self, number: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch from batch `start` on, drawn ahead of the training.

        Args:
            number: Int of at least 0, the epoch.
            start: Int of at least 0, how many batches to pass over.

        Returns:
            Dataset of `({"inputs": (batch, time, input_dim)}, (batch, time, output_dim), (batch,
            time))`, inputs, targets and where they are due, float32, padded with 0.
        """
        validation.check_int_at_least("Stream", "number", number, 0)
        validation.check_int_at_least("Stream", "start", start, 0)
        task = self.task

        def spec(*last_axes):
            return tf.TensorSpec((self.batch_size, None, *last_axes), tf.float32)

        specs = {"inputs": spec(task.input_dim)}, spec(task.output_dim), spec()

        def draw(batch):
            drawn = self.pad(self.example(number, batch))
            return {"inputs": drawn.inputs}, drawn.targets, drawn.due

        return prefetch_draws(draw, specs, start, self._num_batches)

    def example(self, epoch: int, batch: int) -> Example:
        """Returns batch `batch` of an epoch as arrays, not padded."""
        ranges = self.ranges
        if self.curriculum is not None:
            ranges = self.curriculum.ranges(ranges, epoch)
        generator = generator_of(self.seed, epoch, batch)
        return self.task.draw(generator, self.batch_size, **ranges)

    def pad(self, example: Example) -> Example:
        """Returns the sequences padded to the shortest of `shapes` that holds them."""
        place = np.searchsorted(self._times, example.due.shape[1])
        return example.pad(self._times[int(place)])

    def take(self, count: int, epoch: int = 0) -> list[Example]:
        """Returns the first `count` batches of an epoch as arrays, not padded."""
        return [self.example(epoch, batch) for batch in range(count)]

    def digest(self) -> str:
        """Returns a string that changes with the first batch."""
        example = self.example(0, 0)
        return hashlib.sha256(example.inputs.tobytes() + example.targets.tobytes()).hexdigest()

    def __str__(self) -> str:
        return (
            f"{self.task.name}: {self._num_batches:,} batches an epoch of {self.batch_size} "
            f"sequences, {len(self._times)} shapes of at most {self._times[-1]} steps"
        )

    def _bucket_lengths(self, max_shapes):
        """Returns the lengths to pad to, ascending, chosen for every size being as likely."""
        spans = [range(low, high + 1) for low, high in self.ranges.values()]
        times = np.array(
            [
                self.task.time(**self.task.cap(dict(zip(self.ranges, sizes, strict=True))))
                for sizes in itertools.product(*spans)
            ]
        )
        buckets = split_into_buckets(times, 0 * times, lambda time, _: 1 + 0 * time, max_shapes)
        return sorted(int(times[bucket].max()) for bucket in buckets)
