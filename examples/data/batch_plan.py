"""Which pairs of texts make a batch, and in which order: a function of lengths, seed and epoch."""

import numpy as np

from examples.data.buckets import split_into_buckets
from examples.data.order import frozen_draw


class BatchPlan:
    """The rows of each batch of an epoch, in batches of a few shapes.

    Args:
        source_lengths, target_lengths: Int arrays `(pairs,)`.
        batch_size: Rows in a batch.
        batch_tokens: If given, takes the place of `batch_size`: a batch has as many rows as fit
            into about this many tokens on its longer side.
        max_shapes: Most shapes.
        seed: Int of at least 0, the seed of the order.

    Attributes:
        shapes: The `(rows, source, target)` shapes.
        settings: The arguments but for the lengths.

    Example:

    >>> plan = BatchPlan(np.array([2, 3, 2]), np.array([2, 3, 2]), batch_size=2)
    >>> plan.shapes
    [(2, 2, 2), (2, 3, 3)]
    >>> [(shape, rows.tolist()) for shape, rows in plan.in_order()]
    [(0, [0, 2]), (1, [1])]
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_size: int,
        batch_tokens: int | None = None,
        max_shapes: int = 8,
        seed: int = 0,
    ) -> None:
        def count_rows(source, target):
            longer = np.maximum(source, target)
            return batch_size + 0 * longer if batch_tokens is None else batch_tokens // longer

        self.settings = {
            "batch_size": batch_size,
            "batch_tokens": batch_tokens,
            "max_shapes": max_shapes,
            "seed": seed,
        }
        self._buckets = split_into_buckets(source_lengths, target_lengths, count_rows, max_shapes)
        longest = [
            (int(source_lengths[rows].max()), int(target_lengths[rows].max()))
            for rows in self._buckets
        ]
        self.shapes = [(int(count_rows(*lengths)), *lengths) for lengths in longest]

    def counts(self) -> list[int]:
        """Returns the number of batches of each shape."""
        sizes = [len(bucket) for bucket in self._buckets]
        return [-(-size // rows) for size, (rows, _, _) in zip(sizes, self.shapes, strict=True)]

    def epoch(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """Returns the batches of an epoch: the number of the shape, and the rows."""
        random = frozen_draw(self.settings["seed"], epoch)
        plan = self._divide([random.permutation(bucket) for bucket in self._buckets])
        return [plan[n] for n in random.permutation(len(plan))]

    def in_order(self) -> list[tuple[int, np.ndarray]]:
        """Returns every row once, bucket by bucket and in each in order."""
        return self._divide(self._buckets)

    def _divide(self, buckets):
        plan = []
        for number, (bucket, shape) in enumerate(zip(buckets, self.shapes, strict=True)):
            plan += [(number, bucket[n : n + shape[0]]) for n in range(0, len(bucket), shape[0])]
        return plan
