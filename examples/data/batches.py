"""Batches of a few fixed shapes, in an order that a resumed run can take up again."""

import hashlib

import numpy as np
import tensorflow as tf

from examples.data.batch_plan import BatchPlan
from examples.data.encoding import EncodedPairs, encode_pairs
from keras_attention.export.tokenizers.base import BOS_ID


class Batches:
    """Pairs as padded batches of at most `max_shapes` shapes.

    Every batch of a shape has the same number of rows: what is missing in the last one
    is filled with empty rows, whose ids and labels are all 0. The order in epoch `e` is a
    function of `(seed, e)` alone, so a run resumes at any (epoch, batch).

    Args:
        encoded: `EncodedPairs`, see `encode_pairs`.
        batch_size: Sentence pairs in a batch.
        batch_tokens: If given, takes the place of `batch_size`: a batch has as many rows as
            fit into about this many tokens on its longer side.
        max_shapes: Most (rows, source, target) shapes.
        seed: Int of at least 0, the seed of the order.
        decoder_start_id: Int, what the decoder reads first;
            `keras_attention.decoders.get_decoder_start_id` asks it.

    Attributes:
        plan: The `BatchPlan` of its pairs.

    Raises:
        ValueError: If an argument is not a positive int, or `batch_tokens` is less than the
            longest row.

    Example:

    >>> from examples.data.encoding import EncodedPairs, Ragged
    >>> from examples.data.report import Report
    >>> ids = Ragged.from_rows([[5, 3], [6, 7, 3], [8, 3]])
    >>> batches = Batches(EncodedPairs(ids, ids, np.arange(3), Report()), batch_size=2)
    >>> batches.shapes()
    [(2, 2, 2), (2, 3, 3)]
    >>> inputs, labels = next(iter(batches.epoch(0)))
    >>> sorted(inputs)
    ['source', 'target']
    """

    def __init__(
        self,
        encoded: EncodedPairs,
        *,
        batch_size: int = 64,
        batch_tokens: int | None = None,
        max_shapes: int = 8,
        seed: int = 0,
        decoder_start_id: int = BOS_ID,
    ):
        _check_int("batch_size", batch_size, 1)
        _check_int("max_shapes", max_shapes, 1)
        _check_int("seed", seed, 0)
        self.encoded = encoded
        self.seed, self.decoder_start_id = seed, decoder_start_id
        source, target = encoded.source.lengths, encoded.target.lengths
        longest = int(max(source.max(), target.max()))
        if batch_tokens is not None and _check_int("batch_tokens", batch_tokens, 1) < longest:
            raise ValueError(
                f"`batch_tokens` must hold the longest row, {longest} tokens. Make it larger, or "
                f"limit the lengths. Received: batch_tokens={batch_tokens}"
            )

        self.plan = BatchPlan(source, target, batch_size, batch_tokens, max_shapes, seed)
        self._shapes = self.plan.shapes
        with tf.device("CPU"):  # the pipeline runs there, whatever the model runs on
            self._tensors = [
                (tf.constant(side.values), tf.constant(side.starts))
                for side in (encoded.source, encoded.target)
            ]
            self._index = tf.constant(encoded.index)
            self._shape_table = tf.constant(self._shapes, tf.int64)

    @classmethod
    def from_pairs(
        cls,
        pairs,
        source_tokenizer,
        target_tokenizer,
        *,
        max_source_length: int | None = None,
        max_target_length: int | None = None,
        num_copied_words: int = 0,
        **options,
    ) -> "Batches":
        """Encodes text pairs and makes batches of them.

        The arguments are those of `encode_pairs` and of the class. What was left out is
        told by `batches.report`.
        """
        encoded = encode_pairs(
            pairs,
            source_tokenizer,
            target_tokenizer,
            max_source_length=max_source_length,
            max_target_length=max_target_length,
            num_copied_words=num_copied_words,
        )
        return cls(encoded, **options)

    @property
    def report(self):
        """The `Report` of pairs left out after tokenization."""
        return self.encoded.report

    @property
    def padding_share(self) -> float:
        """The share of source and target positions of an epoch that hold padding."""
        positions = sum(
            count * rows * (source + target)
            for count, (rows, source, target) in zip(self.plan.counts(), self._shapes, strict=True)
        )
        return 1.0 - (len(self.encoded.source.values) + len(self.encoded.target.values)) / positions

    def shapes(self) -> list[tuple[int, int, int]]:
        """Returns the `(rows, source, target)` shapes that an epoch takes."""
        return list(self._shapes)

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return sum(self.plan.counts())

    def epoch(self, epoch: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch in its order, from batch `start` on.

        Args:
            epoch: Int of at least 0.
            start: How many batches to pass over.

        Returns:
            Dataset of `({"source": (rows, source), "target": (rows, target)}, labels)`,
            int32: source tokens and the end id; the first id and the target tokens; the
            target tokens and the end id, `(rows, target)`. Padding is 0.
        """
        _check_int("epoch", epoch, 0)
        _check_int("start", start, 0)
        plan = self.plan.epoch(epoch)[start:]
        return self._dataset(plan, lambda inputs, labels, _: (inputs, labels))

    def evaluation(self) -> tf.data.Dataset:
        """Returns every pair once, not shuffled, with its place in the text pairs.

        Returns:
            Dataset of `(inputs, labels, index)`: as `epoch`, and `index (rows,)` int64, the
            place of each pair in what was encoded, -1 for an empty row. Bucket by bucket,
            in each bucket in the order of the pairs; sort by `index` for that of the text.
        """
        return self._dataset(self.plan.in_order(), lambda *batch: batch)

    def digest(self) -> str:
        """Returns the SHA-256 of the encoded pairs."""
        sha = hashlib.sha256()
        for side in (self.encoded.source, self.encoded.target):
            for array in (side.starts, side.values):
                sha.update(array.astype("<i8").tobytes())
        return sha.hexdigest()

    def __str__(self) -> str:
        return (
            f"{len(self.encoded):,} pairs in {self.batches_per_epoch():,} batches of "
            f"{len(self._shapes)} shapes, {100 * self.padding_share:.1f} % padding"
        )

    def _dataset(self, plan, select):
        width = max(rows for rows, _, _ in self._shapes)
        table = np.full((len(plan), width), -1, np.int64)  # -1: an empty row
        for line, (_, rows) in zip(table, plan, strict=True):
            line[: len(rows)] = rows
        numbers = np.array([number for number, _ in plan], np.int64)
        with tf.device("CPU"):
            dataset = tf.data.Dataset.from_tensor_slices((numbers, table))
            dataset = dataset.map(
                lambda number, rows: select(*self._assemble(number, rows)),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )
            return dataset.prefetch(tf.data.AUTOTUNE)

    def _assemble(self, number, rows):
        """Returns (inputs, labels, index) of the rows of a batch."""
        count, source_length, target_length = tf.unstack(self._shape_table[number], num=3)
        rows = rows[:count]
        source = _gather(*self._tensors[0], rows, source_length)
        labels = _gather(*self._tensors[1], rows, target_length)
        start = tf.fill(tf.shape(labels[:, :1]), self.decoder_start_id)
        shifted = tf.concat([start, labels[:, :-1]], axis=1)  # the end id is no input
        inputs = {"source": source, "target": tf.where(labels > 0, shifted, 0)}
        return inputs, labels, tf.where(rows >= 0, tf.gather(self._index, tf.maximum(rows, 0)), -1)


def _gather(values, starts, rows, length):
    """Returns the rows of a ragged array, `(rows, length)`, padded with 0."""
    known = tf.maximum(rows, 0)
    start, end = tf.gather(starts, known), tf.gather(starts, known + 1)
    places = start[:, None] + tf.range(length)[None, :]
    inside = (places < end[:, None]) & (rows >= 0)[:, None]
    return tf.where(inside, tf.gather(values, tf.where(inside, places, 0)), 0)


def _check_int(name, value, minimum):
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(
            f"`{name}` must be an int of at least {minimum}. Received: {name}={value!r}"
        )
    return value
