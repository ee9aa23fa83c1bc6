"""Products with a window of rows for every query, without holding all windows at once.

    dot_n,o = q_n . x_{c_n + o}        sum_n = sum_o w_n,o x_{c_n + o}       o = 0 .. window - 1

Code name -> symbol: `query` -> q, `weights` -> w, `source` -> x, `first` -> c. Gathered at once,
the rows take `window` times the memory of the queries, and their gradients as much again. Here
a loop takes BLOCK places at a time, forward and backward; the gradient of one product is the
other one and a sum by row of the source.
"""

from keras import ops

from keras_attention.precision import wide_dtype
from keras_attention.written_gradient import custom_gradient

BLOCK = 16  # places gathered at once


class Places:
    """Which rows of a flat source the windows hold.

    Args:
        first: Int32 `(queries,)`, the first key of each window; it may lie outside.
        source: Int32 `(queries,)`, the batch row that each query reads.
        num_keys: Int or int tensor, the keys of a batch row.
        window: Int, the keys in a window; those outside of the source are read as its ends.
    """

    def __init__(self, first, source, num_keys, window):
        self.first, self.begin = first[:, None], source[:, None] * num_keys
        self.num_keys, self.window = num_keys, window
        self.blocks = -(-window // BLOCK)
        self.block = -(-window // self.blocks)  # blocks of nearly one size

    def of_block(self, number):
        """Returns the rows of one block of places, int32 `(queries, block)`."""
        keys = self.first + number * self.block + ops.arange(self.block, dtype="int32")
        return self.begin + ops.clip(keys, 0, self.num_keys - 1)

    def split(self, weights):
        """Returns `(queries, window)` as `(queries, blocks, block)`; the last one ends in zeros."""
        queries, missing = ops.shape(weights)[0], self.blocks * self.block - self.window
        if missing:
            padding = ops.zeros((queries, missing), dtype=weights.dtype)
            weights = ops.concatenate([weights, padding], axis=1)
        return ops.reshape(weights, (queries, self.blocks, self.block))

    def join(self, blocks):
        """Returns `(queries, blocks, block)` as `(queries, window)`: the inverse of `split`."""
        shape = (ops.shape(blocks)[0], self.blocks * self.block)
        return ops.reshape(blocks, shape)[:, : self.window]


def window_dot(query, source, places):
    """Returns the dot products of each query with the rows of its window, `(queries, window)`.

    Args:
        query: Float tensor `(queries, dim)`.
        source: Float tensor `(rows, dim)`.
        places: The `Places` of the windows.
    """

    @custom_gradient
    def run(query, source):
        def gradient(upstream):
            by_query = _sums(upstream, source, places)
            return by_query, _sums_by_row(upstream, query, ops.shape(source)[0], places)

        return _dots(query, source, places), gradient

    return run(query, source)


def window_sum(weights, source, places):
    """Returns the weighted sum of the rows of each query's window, `(queries, dim)`.

    Args:
        weights: Float tensor `(queries, window)`.
        source: Float tensor `(rows, dim)`.
        places: The `Places` of the windows.
    """

    @custom_gradient
    def run(weights, source):
        def gradient(upstream):
            by_weight = _dots(upstream, source, places)
            return by_weight, _sums_by_row(weights, upstream, ops.shape(source)[0], places)

        return _sums(weights, source, places), gradient

    return run(weights, source)


def _dots(query, source, places):
    def put(number, dots):
        rows = ops.take(source, places.of_block(number), axis=0)  # (queries, block, dim)
        # Not a matrix product: XLA gathers, multiplies and sums in one pass.
        part = ops.sum(rows * query[:, None, :], axis=2)[:, None, :]
        here = ops.arange(places.blocks, dtype="int32")[:, None] == number
        return ops.where(here, part, dots)

    shape = (ops.shape(query)[0], places.blocks, places.block)
    return places.join(_in_turn(put, places.blocks, ops.zeros(shape, query.dtype)))


def _sums(weights, source, places):
    blocks = places.split(weights)

    def add(number, total):
        rows = ops.take(source, places.of_block(number), axis=0)
        part = rows * ops.take(blocks, number, axis=1)[:, :, None]
        return total + ops.sum(ops.cast(part, total.dtype), axis=1)

    shape = (ops.shape(weights)[0], source.shape[1])
    total = _in_turn(add, places.blocks, ops.zeros(shape, wide_dtype(weights.dtype)))
    return ops.cast(total, weights.dtype)


def _sums_by_row(weights, query, num_rows, places):
    """Returns, for each row of the source, the queries that read it, weighted and summed."""
    blocks = places.split(weights)

    def add(number, total):
        pairs = ops.take(blocks, number, axis=1)[:, :, None] * query[:, None, :]
        pairs = ops.reshape(ops.cast(pairs, total.dtype), (-1, query.shape[1]))
        rows = ops.reshape(places.of_block(number), (-1,))
        return total + ops.segment_sum(pairs, rows, num_segments=num_rows)

    total = ops.zeros((num_rows, query.shape[1]), wide_dtype(weights.dtype))
    return ops.cast(_in_turn(add, places.blocks, total), weights.dtype)


def _in_turn(step, count, initial):
    """Returns what `step(number, carried)` makes of `initial` for the numbers below `count`."""

    def waiting(number, carried):
        # TensorFlow runs several turns at once where the carried tensor is not needed yet, and
        # then holds the rows of all of them. A number that waits for it (for 0) prevents that.
        one = ops.sum(carried[:1])
        never = ops.logical_and(one > 0, one < 0)
        return step(number + ops.cast(never, "int32"), carried)

    return ops.fori_loop(0, count, waiting, initial)
