"""Encoded pairs of texts without TensorFlow: the batches of `examples.data.batches.Batches`."""

from collections.abc import Iterator, Mapping

import numpy as np

from examples.data.batch_plan import BatchPlan

SIDES = ("source", "target")


class PackedPairs:
    """Pairs as arrays that a file holds, and their batches as NumPy arrays.

    Args:
        arrays: `source`, `target`: the ids of all pairs end to end; `source_lengths`,
            `target_lengths`: how many there are of each.
        settings: `batch_size`, `batch_tokens`, `max_shapes` and `seed` of a `BatchPlan`, and
            `decoder_start_id`.

    Example:

    >>> arrays = {side: np.array([5, 3, 6, 7, 3]) for side in SIDES}
    >>> arrays |= {f"{side}_lengths": np.array([2, 3]) for side in SIDES}
    >>> settings = {"batch_size": 2, "max_shapes": 1, "seed": 1, "decoder_start_id": 2}
    >>> inputs, labels = next(PackedPairs(arrays, settings).in_order())
    >>> inputs["target"].tolist(), labels.tolist()
    ([[2, 5, 0], [2, 6, 7]], [[5, 3, 0], [6, 7, 3]])
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], settings: Mapping[str, object]) -> None:
        self._values = {side: arrays[side].astype(np.int32) for side in SIDES}
        self._lengths = {side: arrays[f"{side}_lengths"].astype(np.int64) for side in SIDES}
        self._starts = {
            side: np.cumsum(self._lengths[side]) - self._lengths[side] for side in SIDES
        }
        options = dict(settings)
        self._decoder_start_id = options.pop("decoder_start_id")
        self._plan = BatchPlan(*self._lengths.values(), **options)

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """The (rows, source, target) shapes of the batches."""
        return self._plan.shapes

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches, the same in every epoch."""
        return sum(self._plan.counts())

    def epoch(self, epoch: int) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yields the inputs and labels of an epoch, as `Batches.epoch` has them."""
        return map(self._assemble, self._plan.epoch(epoch))

    def in_order(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yields inputs and labels of all pairs, bucket by bucket."""
        return map(self._assemble, self._plan.in_order())

    def _assemble(self, batch):
        shape, rows = batch
        count, *lengths = self.shapes[shape]
        source, labels = (
            self._pad(side, rows, count, length)
            for side, length in zip(SIDES, lengths, strict=True)
        )
        target = np.roll(labels, 1, axis=1)
        target[:, 0] = self._decoder_start_id
        return {"source": source, "target": np.where(labels > 0, target, 0)}, labels

    def _pad(self, side, rows, count, length):
        padded = np.zeros((count, length), np.int32)
        places = np.arange(length)
        inside = places < self._lengths[side][rows, None]
        ids = self._values[side][(self._starts[side][rows, None] + places)[inside]]
        padded[: len(rows)][inside] = ids
        return padded
