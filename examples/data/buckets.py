"""A handful of (source, target) lengths that waste little padding.

XLA compiles a program for each shape, so the batches of a corpus take few shapes. Starting
from one bucket that holds all pairs, the split that saves most padded positions is made
again and again, until `max_shapes` buckets are there or no split saves enough to be worth
another program.
"""

import numpy as np

WORTH_A_SHAPE = 0.01
"""The share of all positions that a further shape must save."""


def split_into_buckets(
    source_lengths: np.ndarray, target_lengths: np.ndarray, rows_of_shape, max_shapes: int = 8
) -> list[np.ndarray]:
    """Returns the rows of each bucket, ascending; every row is in exactly one.

    Args:
        source_lengths: Int array `(rows,)`.
        target_lengths: Int array `(rows,)`.
        rows_of_shape: Function of two arrays, source and target length of a batch, that
            returns its number of rows; or that number, if it is the same for all.
        max_shapes: Most buckets.
    """
    lengths = np.stack([source_lengths, target_lengths]).astype(np.int64)
    buckets = [np.arange(lengths.shape[1])]
    total = _positions(lengths.shape[1], *lengths.max(axis=1), rows_of_shape)
    while len(buckets) < max_shapes:
        splits = [_best_split(lengths, rows, rows_of_shape) for rows in buckets]
        place = max(range(len(splits)), key=lambda n: splits[n][0])
        saved, axis, limit = splits[place]
        if saved <= WORTH_A_SHAPE * total:
            break
        total -= saved
        rows = buckets[place]
        short = lengths[axis, rows] <= limit
        buckets[place : place + 1] = [rows[short], rows[~short]]
    return buckets


def _best_split(lengths, rows, rows_of_shape):
    """Returns (positions saved, axis, longest length of the shorter part)."""
    best = (0, 0, 0)
    whole = _positions(len(rows), *lengths[:, rows].max(axis=1), rows_of_shape)
    for axis in (0, 1):
        ordered = lengths[:, rows[np.argsort(lengths[axis, rows], kind="stable")]]
        ends = np.flatnonzero(np.diff(ordered[axis])) + 1  # sizes of the shorter part
        if not len(ends):
            continue
        low = np.maximum.accumulate(ordered, axis=1)[:, ends - 1]
        high = np.maximum.accumulate(ordered[:, ::-1], axis=1)[:, ::-1][:, ends]
        cost = _positions(ends, *low, rows_of_shape)
        cost = cost + _positions(len(rows) - ends, *high, rows_of_shape)
        saved = whole - cost
        place = int(np.argmax(saved))
        if saved[place] > best[0]:
            best = (int(saved[place]), axis, int(ordered[axis, ends[place] - 1]))
    return best


def _positions(count, source, target, rows_of_shape):
    """Padded positions of `count` rows, the empty rows of the last batch included."""
    rows = rows_of_shape(source, target) if callable(rows_of_shape) else rows_of_shape
    return -(-count // rows) * rows * (source + target)
