"""Additive attention scores in O(query * key) memory.

    s[q, k] = sum_u v[u] * t[q, k, u]          t[q, k, u] = tanh(a[q, u] + b[k, u])

The (batch, query, key, units) array t is never stored. It is computed block by block, and
recomputed in the gradient:

    grad_a[q, u] = v[u] * sum_k g[q, k] * (1 - t[q, k, u]**2)               likewise grad_b
    grad_v[u]    =        sum_qk g[q, k] * t[q, k, u]

Code name -> symbol: `query` -> a, `key` -> b, `vector` -> v, `cotangent` -> g, that of s.

A block holds some batch elements, or some queries of one (`tile_scores`, `tile_gradients`). A batch
element larger than a block is summed in a different order under XLA, which then stores no part of t
(`row_scores`, `row_sums`): each result is a sum of matrices over one axis (u, q, k and q), and a
few matrices are added at a time. If no projection exceeds MAX_QUOTIENT_ARGUMENT, the hyperbolic
tangent costs one division there and no exponential (`QuotientTanh`). Under XLA
more than one block has no second derivative.
"""

from collections.abc import Callable

from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Size, Tensor, TensorLike
from keras_attention.kernels import blocks, execution_mode
from keras_attention.kernels.blocks import Tiles, count_values, fold_blocks, map_blocks, split_axis
from keras_attention.kernels.custom_gradients import custom_gradient
from keras_attention.kernels.fused_additive import fuse_gradients, fuse_scores
from keras_attention.kernels.tanh_forms import (
    TanhForm,
    choose_tanh,
    permits_quotient,
)

MAX_MATRICES_PER_BLOCK = 8  # matrices added at a time; more are no faster
BLOCKWISE_CHOICES = ("auto", True, False)
#: Minimum number of queries and keys of a long row. The time per value of t is 0.64 instead of
#: 0.49 ns with 16 queries, 0.36 instead of 0.42 ns with 64.
MIN_LONG_ROW = 32
#: For a product with a vector of fewer units XLA computes one tanh at a time: 3.3 instead of
#: 0.9 ns per value.
MIN_MATMUL_UNITS = 64
#: The largest t that is computed at once, in values. Blocks of short rows are up to twice as slow
#: as all pairs at once, so they begin where they save 64 MB (graph) or 256 MB (eager, XLA).
MAX_DENSE_VALUES = {"eager": 2**26, "graph": 2**24, "xla": 2**26}
#: The same for long rows under XLA, which are computed faster by blocks.
MAX_DENSE_LONG_ROW_VALUES = 2**22
#: Values in a block where quotients are not valid on a GPU: XLA reserves memory for them in any
#: case, 64 MB for each array.
FALLBACK_BLOCK_VALUES = 2**24
#: On a GPU, where XLA computes fused sums.
MAX_DENSE_VALUES_ON_GPU = {"eager": 2**28, "graph": 2**28, "xla": 2**24}
#: XLA computes scores without a gradient equally fast at once, so up to this size only the
#: gradient is computed in blocks.
MAX_DENSE_FORWARD_VALUES = {"eager": 0, "graph": 0, "xla": 2**26}


def blockwise_additive_scores(
    query: TensorLike,
    key: TensorLike,
    vector: TensorLike,
    dense_scores: Callable[[Tensor, Tensor, Tensor], TensorLike] | None = None,
) -> Tensor:
    """Returns the result of `additive_scores`, in memory of the size of the scores.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        dense_scores: Optional callable of the three tensors that returns the scores. It is used
            for sizes at which only the gradient should be computed in blocks.

    Returns:
        Scores `(batch, query, key)` in the dtype of `query`; half precision is computed in
        float32.
    """
    dtype = query.dtype
    query, key, vector = (at_least_float32(tensor) for tensor in (query, key, vector))

    @custom_gradient
    def run(query, key, vector):
        tensors = query, key, vector
        if execution_mode.has_gpu() and execution_mode.get_execution_mode(query) == "xla":
            return run_fused(*tensors)
        is_long = has_long_rows(query, key)

        def compute_blockwise():
            return blocks.smart_cond(
                is_long, lambda: long_row_scores(*tensors), lambda: tile_scores(*tensors)
            )

        use_dense = dense_scores is not None
        if use_dense:
            use_dense = (
                _num_values(query, key)
                <= MAX_DENSE_FORWARD_VALUES[execution_mode.get_execution_mode(query)]
            )
        scores = blocks.smart_cond(use_dense, lambda: dense_scores(*tensors), compute_blockwise)

        def gradient(*arguments, upstream=None):
            cotangent = blocks.get_cotangent(arguments, upstream)
            return blocks.smart_cond(
                is_long,
                lambda: long_row_gradients(*tensors, cotangent),
                lambda: tile_gradients(*tensors, cotangent),
            )

        return scores, gradient

    def run_fused(*tensors):
        is_valid = permits_quotient(*tensors[:2])

        def gradient(*arguments, upstream=None):
            cotangent = blocks.get_cotangent(arguments, upstream)
            return ops.cond(
                is_valid,
                lambda: fuse_gradients(*tensors, cotangent),
                lambda: tile_gradients(*tensors, cotangent, FALLBACK_BLOCK_VALUES),
            )

        scores = ops.cond(
            is_valid,
            lambda: fuse_scores(*tensors),
            lambda: tile_scores(*tensors, FALLBACK_BLOCK_VALUES),
        )
        return scores, gradient

    return ops.cast(run(query, key, vector), dtype)


def should_use_blocks(query: TensorLike, key: TensorLike) -> bool | Tensor:
    """Returns whether blocks are faster: a boolean, or a tensor if sizes are unknown."""
    if not blocks.supports_loops() or query.shape[1] == 1:  # one decoder step
        return False
    num_values = _num_values(query, key)
    mode = execution_mode.get_execution_mode(query)
    if execution_mode.has_gpu():
        if mode == "xla" and not isinstance(num_values, int):
            return True
        return num_values > MAX_DENSE_VALUES_ON_GPU[mode]
    if mode == "xla":
        if not isinstance(num_values, int):
            return True  # it compiles for each size, and a single block costs nothing
        if has_long_rows(query, key):
            return num_values > MAX_DENSE_LONG_ROW_VALUES
    return num_values > MAX_DENSE_VALUES[mode]


def has_long_rows(query: TensorLike, key: TensorLike) -> bool | Tensor:
    """Returns whether to use `row_scores` and `row_sums`, as a boolean or a tensor."""
    if execution_mode.get_execution_mode(query) != "xla" or execution_mode.has_gpu():
        return False
    sizes = get_shape(query)[1], *get_shape(key)[1:]
    conditions = [
        count_values(*sizes) >= blocks.BLOCK_VALUES,
        *(size >= MIN_LONG_ROW for size in sizes[:2]),
    ]
    if all(isinstance(condition, bool) for condition in conditions):
        return all(conditions)
    return ops.all(ops.stack(conditions))


def tile_scores(
    query: TensorLike, key: TensorLike, vector: TensorLike, block: Size | None = None
) -> Tensor:
    """Returns the scores, by blocks of batch elements or of the queries of one element.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        block: Values of t in a block; chosen by default.
    """
    tiles = _tiles(query, key, block)
    count, num_keys, units = tiles.blocks * tiles.parts, get_shape(key)[1], key.shape[-1]
    query = ops.reshape(tiles.split(query), (count, tiles.rows, tiles.part, units))
    key = tiles.split_rows(key)

    def step(index):
        hidden = pairwise_tanh(query[index], key[index // tiles.parts])
        if units < MIN_MATMUL_UNITS:
            return [ops.sum(hidden * vector, axis=-1)]
        scores = ops.matmul(ops.reshape(hidden, (-1, units)), vector[:, None])
        return [ops.reshape(scores, (tiles.rows, tiles.part, num_keys))]

    shape = (tiles.rows, tiles.part, num_keys)
    (scores,) = map_blocks(step, count, [shape], query)
    return tiles.join(ops.reshape(scores, (tiles.blocks, tiles.parts, *shape)))


def tile_gradients(
    query: TensorLike,
    key: TensorLike,
    vector: TensorLike,
    cotangent: TensorLike,
    block: Size | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, key and vector, in the blocks of `tile_scores`."""
    tiles = _tiles(query, key, block)
    query, cotangent, key = tiles.split(query), tiles.split(cotangent), tiles.split_rows(key)
    shapes = [get_shape(query)[1:], get_shape(key)[1:], get_shape(vector)]

    def step(block):
        def add(part, sums):
            grad_query, grad_key, grad_vector = sums
            hidden, block_cotangent = (
                pairwise_tanh(query[block, part], key[block]),
                cotangent[block, part],
            )
            rows = ops.reshape(hidden, (-1, vector.shape[0]))
            slopes = block_cotangent[..., None] * (1 - hidden * hidden)
            return [
                blocks.set_row(grad_query, part, ops.sum(slopes, axis=2)),
                grad_key + ops.sum(slopes, axis=1),
                grad_vector + ops.matmul(ops.reshape(block_cotangent, (1, -1)), rows)[0],
            ]

        return fold_blocks(tiles.parts, add, [ops.zeros(shape, query.dtype) for shape in shapes])

    grad_query, grad_key, grad_vector = map_blocks(step, tiles.blocks, shapes, query)
    grad_query, grad_key = tiles.join(grad_query) * vector, tiles.join_rows(grad_key) * vector
    return grad_query, grad_key, ops.sum(grad_vector, axis=0)


def pairwise_tanh(query: TensorLike, key: TensorLike) -> Tensor:
    """Returns t, `(rows, query, key, units)`."""
    return ops.tanh(query[:, :, None, :] + key[:, None, :, :])


def _tiles(query, key, values_per_block=None):
    num_values = _num_values(query, key)
    (batch, queries, _), per_query = get_shape(query), count_values(*get_shape(key)[1:])
    if values_per_block is None:
        values_per_block = blocks.choose_values_per_block(num_values, query)
    if execution_mode.get_execution_mode(query) == "xla" and not isinstance(num_values, int):
        # Sizes that would be computed at once if they were known are one block.
        is_one_block = num_values <= MAX_DENSE_VALUES["xla"]
        one_block = ops.maximum(num_values, values_per_block)
        values_per_block = ops.where(is_one_block, one_block, values_per_block)
    return Tiles(batch, queries, per_query, values_per_block)


def _num_values(query, key):
    """Returns the size of t."""
    return count_values(*get_shape(query)[:2], *get_shape(key)[1:])


def long_row_scores(query: TensorLike, key: TensorLike, vector: TensorLike) -> Tensor:
    """Returns the scores, one batch element after the other."""

    def step(row):
        sides = ops.transpose(query[row]), ops.transpose(key[row])
        return [choose_tanh(lambda form: row_scores(form, *sides, vector), *sides)]

    batch, queries, _ = get_shape(query)
    return map_blocks(step, batch, [(queries, get_shape(key)[1])], query)[0]


def long_row_gradients(
    query: TensorLike, key: TensorLike, vector: TensorLike, cotangent: TensorLike
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, key and vector, one batch element after the other."""

    def step(row):
        sides = query[row], key[row]
        return choose_tanh(lambda form: row_sums(form, *sides, cotangent[row]), *sides)

    shapes = [get_shape(side)[:0:-1] for side in (query, key)]
    sums = map_blocks(step, get_shape(query)[0], [*shapes, shapes[1]], query)
    grad_query, grad_key = (ops.swapaxes(total, 1, 2) * vector for total in sums[:2])
    return grad_query, grad_key, ops.sum(sums[2], axis=(0, 2))


def row_scores(
    form: TanhForm,
    query: TensorLike,
    key: TensorLike,
    vector: TensorLike,
) -> Tensor:
    """Returns the scores of one batch element, `(query, key)`.

    Args:
        form: `QuotientTanh` or `PlainTanh`.
        query: Float tensor `(units, query)`.
        key: Float tensor `(units, key)`.
        vector: Float tensor `(units,)`.
    """
    shift = form.shift(key)
    size = _choose_block_size(get_shape(key)[0], query.shape[1], key.shape[1])
    left = [split_axis(part, size, 0)[:, :, :, None] for part in form.left(query + shift)]
    right = [split_axis(part, size, 0)[:, :, None, :] for part in form.right(key - shift)]
    vector = split_axis(vector, size, 0)[:, :, None, None]

    def add(block, state):
        hidden = form.combine(*(part[block] for part in (*left, *right)))
        return [state[0] + ops.sum(vector[block] * hidden, axis=0)]

    start = ops.zeros((get_shape(query)[1], get_shape(key)[1]), query.dtype)
    return fold_blocks(get_shape(vector)[0], add, [start])[0]


def row_sums(
    form: TanhForm,
    query: TensorLike,
    key: TensorLike,
    cotangent: TensorLike,
) -> list[Tensor]:
    """Returns the sums for query, key and vector in one batch element, `(units, ...)` each.

    Args:
        form: `QuotientTanh` or `PlainTanh`.
        query: Float tensor `(query, units)`.
        key: Float tensor `(key, units)`.
        cotangent: Float tensor `(query, key)`.
    """
    transposed_query, transposed_key = ops.transpose(query), ops.transpose(key)
    transposed = ops.transpose(cotangent)
    return [
        pair_sums(form, transposed, key, transposed_query, tanh_slope),
        pair_sums(form, cotangent, query, transposed_key, tanh_slope),
        pair_sums(form, cotangent, query, transposed_key, lambda hidden: hidden),
    ]


def pair_sums(
    form: TanhForm,
    cotangent: TensorLike,
    summed_side: TensorLike,
    kept_side: TensorLike,
    function: Callable[[Tensor], TensorLike],
) -> Tensor:
    """Returns `sum_i cotangent[i] * function(t[i])`, `(units, kept)`.

    Args:
        form: `QuotientTanh` or `PlainTanh`.
        cotangent: Float tensor `(i, kept)`.
        summed_side: Float tensor `(i, units)`, the side that the sum runs over.
        kept_side: Float tensor `(units, kept)`.
        function: Callable of t.
    """
    shift = form.shift(kept_side)
    size = _choose_block_size(summed_side.shape[0], *kept_side.shape)
    left = form.left(summed_side + ops.transpose(shift))
    left = [split_axis(part, size, 0)[:, :, :, None] for part in left]
    cotangent = split_axis(cotangent, size, 0)[:, :, None, :]
    right = form.right(kept_side - shift)

    def add(block, state):
        hidden = form.combine(*(part[block] for part in left), *right)
        return [state[0] + ops.sum(cotangent[block] * function(hidden), axis=0)]

    return fold_blocks(get_shape(cotangent)[0], add, [ops.zeros_like(kept_side)])[0]


def tanh_slope(hidden: TensorLike) -> Tensor:
    """Returns the derivative of the hyperbolic tangent as a function of its value `hidden`."""
    return 1.0 - hidden * hidden


def _choose_block_size(count, rows, columns):
    """Returns how many of `count` matrices to add at a time; constant if a size is unknown."""
    if not all(isinstance(size, int) for size in (count, rows, columns)):
        return MAX_MATRICES_PER_BLOCK
    return max(1, min(MAX_MATRICES_PER_BLOCK, count, blocks.BLOCK_VALUES // (rows * columns)))
