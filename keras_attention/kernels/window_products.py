"""Products of every query with a window of rows, without storing all windows at once.

    dot_n,o = q_n . x_{c_n + o}        sum_n = sum_o w_n,o x_{c_n + o}       o = 0 .. window - 1

Code name -> symbol: `query` -> q, `weights` -> w, `source` -> x, `first` -> c. Gathered at once,
the rows need `window` times the memory of the queries, and their gradients as much again. Here
a loop processes KEYS_PER_BLOCK places at a time, forward and backward. The gradient of one product
is the other one and a scatter-add into the rows of the source.
"""

import functools

from keras import ops

from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Size, Tensor, TensorLike
from keras_attention.kernels.custom_gradients import custom_gradient

KEYS_PER_BLOCK = 16  # places of a window gathered at once


class WindowRows:
    """The rows of a flat source that the windows hold.

    Args:
        first: Int32 `(queries,)`, the first key of each window; it may lie outside.
        source: Int32 `(queries,)`, the batch element of each query.
        num_keys: Int or int tensor, the number of keys per batch element.
        window: Int, the number of keys in a window; places outside of the source are clipped.
    """

    first: Tensor
    begin: Tensor
    num_keys: Size
    window: int
    blocks: int
    block: int

    def __init__(self, first: TensorLike, source: TensorLike, num_keys: Size, window: int) -> None:
        self.first, self.begin = first[:, None], source[:, None] * num_keys
        self.num_keys, self.window = num_keys, window
        self.blocks = -(-window // KEYS_PER_BLOCK)
        self.block = -(-window // self.blocks)  # blocks of nearly equal size

    def select_block(self, number: Size) -> Tensor:
        """Returns the rows of one block of places, int32 `(queries, block)`."""
        keys = self.first + number * self.block + ops.arange(self.block, dtype="int32")
        return self.begin + ops.clip(keys, 0, self.num_keys - 1)

    def split(self, weights: TensorLike) -> Tensor:
        """Returns `(queries, window)` as `(queries, blocks, block)`; the last is zero-padded."""
        queries, missing = get_shape(weights)[0], self.blocks * self.block - self.window
        if missing:
            padding = ops.zeros((queries, missing), dtype=weights.dtype)
            weights = ops.concatenate([weights, padding], axis=1)
        return ops.reshape(weights, (queries, self.blocks, self.block))

    def join(self, blocks: TensorLike) -> Tensor:
        """Returns `(queries, blocks, block)` as `(queries, window)`: the inverse of `split`."""
        shape = (get_shape(blocks)[0], self.blocks * self.block)
        return ops.reshape(blocks, shape)[:, : self.window]


def window_dot(query: TensorLike, source: TensorLike, window_rows: WindowRows) -> Tensor:
    """Returns the dot products of each query with the rows of its window, `(queries, window)`.

    Args:
        query: Float tensor `(queries, dim)`.
        source: Float tensor `(rows, dim)`.
        window_rows: The `WindowRows` of the windows.
    """

    @functools.partial(custom_gradient, reads_inputs_alone=True)
    def run(query, source):
        def gradient(upstream):
            by_query = _sums(upstream, source, window_rows)
            return by_query, _sums_by_row(upstream, query, get_shape(source)[0], window_rows)

        return _dots(query, source, window_rows), gradient

    return run(query, source)


def window_sum(weights: TensorLike, source: TensorLike, window_rows: WindowRows) -> Tensor:
    """Returns the weighted sum of the rows of each query's window, `(queries, dim)`.

    Args:
        weights: Float tensor `(queries, window)`.
        source: Float tensor `(rows, dim)`.
        window_rows: The `WindowRows` of the windows.
    """

    @functools.partial(custom_gradient, reads_inputs_alone=True)
    def run(weights, source):
        def gradient(upstream):
            by_weight = _dots(upstream, source, window_rows)
            return by_weight, _sums_by_row(weights, upstream, get_shape(source)[0], window_rows)

        return _sums(weights, source, window_rows), gradient

    return run(weights, source)


def _dots(query, source, window_rows):
    def put(number, dots):
        rows = ops.take(source, window_rows.select_block(number), axis=0)  # (queries, block, dim)
        # Not a matrix product, so that XLA gathers, multiplies and sums in one pass.
        part = ops.sum(rows * query[:, None, :], axis=2)[:, None, :]
        here = ops.arange(window_rows.blocks, dtype="int32")[:, None] == number
        return ops.where(here, part, dots)

    shape = (get_shape(query)[0], window_rows.blocks, window_rows.block)
    return window_rows.join(
        _fold_sequentially(put, window_rows.blocks, ops.zeros(shape, query.dtype))
    )


def _sums(weights, source, window_rows):
    blocks = window_rows.split(weights)

    def add(number, total):
        rows = ops.take(source, window_rows.select_block(number), axis=0)
        part = rows * ops.take(blocks, number, axis=1)[:, :, None]
        return total + ops.sum(ops.cast(part, total.dtype), axis=1)

    shape = (get_shape(weights)[0], source.shape[1])
    total = _fold_sequentially(add, window_rows.blocks, ops.zeros(shape, wide_dtype(weights.dtype)))
    return ops.cast(total, weights.dtype)


def _sums_by_row(weights, query, num_rows, window_rows):
    """Returns, for each row of the source, the weighted sum of the queries that use it."""
    blocks = window_rows.split(weights)

    def add(number, total):
        pairs = ops.take(blocks, number, axis=1)[:, :, None] * query[:, None, :]
        pairs = ops.reshape(ops.cast(pairs, total.dtype), (-1, query.shape[1]))
        rows = ops.reshape(window_rows.select_block(number), (-1,))
        return total + ops.segment_sum(pairs, rows, num_segments=num_rows)

    total = ops.zeros((num_rows, query.shape[1]), wide_dtype(weights.dtype))
    return ops.cast(_fold_sequentially(add, window_rows.blocks, total), weights.dtype)


def _fold_sequentially(step, count, initial):
    """Returns `initial` after `step(number, carry)` for the numbers below `count`."""

    def wait_and_step(number, carry):
        # TensorFlow runs iterations in parallel if they do not need the carried tensor yet, and
        # then stores the rows of all of them. A number that depends on it (times 0) prevents that.
        one = ops.sum(carry[:1])
        never = ops.logical_and(one > 0, one < 0)
        return step(number + ops.cast(never, "int32"), carry)

    return ops.fori_loop(0, count, wait_and_step, initial)
