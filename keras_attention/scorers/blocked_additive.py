"""Additive attention scores in memory of the size of the scores.

    s[q, k] = sum_u v[u] * t[q, k, u]          t[q, k, u] = tanh(a[q, u] + b[k, u])

The (batch, query, key, units) array t is never stored. It is computed block by block, and again in
the gradient:

    grad_a[q, u] = v[u] * sum_k g[q, k] * (1 - t[q, k, u]**2)               likewise grad_b
    grad_v[u]    =        sum_qk g[q, k] * t[q, k, u]

Code name -> symbol: `query` -> a, `key` -> b, `vector` -> v, `cotangent` -> g, that of s.

A block is some batch rows, or some queries of one (`tile_scores`, `tile_gradients`). A row longer
than a block is summed in another order under XLA, which then stores no part of t (`row_scores`,
`row_sums`): each result is a sum of matrices over one axis (u, q, k and q), and a few of them are
added at a time. Where no projection is larger than LIMIT, the hyperbolic tangent costs one
division there and no exponential (`QuotientTanh`). There is no second derivative.
"""

from keras import ops

from keras_attention import blocks
from keras_attention.blocks import Tiles, count_values, map_blocks, run_blocks, split_axis
from keras_attention.precision import at_least_float32
from keras_attention.written_gradient import custom_gradient

LIMIT = 20.0  # with what is moved |2a| and |2b| reach 80, and e^80 is a float32
ADDED = 8  # the most matrices added at a time; more are no faster
CHOICES = ("auto", True, False)
#: Fewer queries or keys than this are not summed as a long row: 0.64 instead of 0.49 ns a value of
#: t with 16 queries, 0.36 instead of 0.42 with 64.
SHORT = 32
#: A product with a vector of fewer units than this makes XLA compute one tanh at a time: 3.3
#: instead of 0.9 ns a value.
NARROW = 64
#: The largest t that is computed at once: so many values.
AT_ONCE = {"eager": 2**26, "graph": 2**22, "xla": 2**22}
AT_ONCE_ON_GPU = 2**28
#: XLA computes scores without a gradient as fast at once, so up to here it is the gradient alone
#: that is computed in blocks.
SCORES_AT_ONCE = {"eager": 0, "graph": 0, "xla": 2**26}


def blocked_additive_scores(query, key, vector, at_once=None):
    """Returns what `additive_scores` returns, in memory of the size of the scores.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        at_once: Optional callable of these that returns the scores, for sizes of which only the
            gradient is to be computed in blocks.

    Returns:
        Scores `(batch, query, key)` in the dtype of `query`; half precision is computed in
        float32.
    """
    dtype = query.dtype
    query, key, vector = (at_least_float32(tensor) for tensor in (query, key, vector))

    @custom_gradient
    def run(query, key, vector):
        tensors, is_long = (query, key, vector), has_long_rows(query, key)

        def in_blocks():
            return blocks.choose(
                is_long, lambda: long_row_scores(*tensors), lambda: tile_scores(*tensors)
            )

        few = at_once is not None
        if few:
            few = _num_values(query, key) <= SCORES_AT_ONCE[blocks.execution(query)]
        scores = blocks.choose(few, lambda: at_once(*tensors), in_blocks)

        def gradient(*arguments, upstream=None):
            cotangent = blocks.upstream_gradient(arguments, upstream)
            return blocks.choose(
                is_long,
                lambda: long_row_gradients(*tensors, cotangent),
                lambda: tile_gradients(*tensors, cotangent),
            )

        return scores, gradient

    return ops.cast(run(query, key, vector), dtype)


def are_worthwhile(query, key):
    """Returns whether blocks are worth it, a boolean or, of sizes not yet known, a tensor."""
    if not blocks.have_loops() or query.shape[1] == 1:  # a decoder's step
        return False
    limit = AT_ONCE_ON_GPU if blocks.on_gpu() else AT_ONCE[blocks.execution(query)]
    worthwhile = _num_values(query, key) > limit
    # XLA compiles for each size, where a single block costs nothing.
    is_known = isinstance(worthwhile, bool) or blocks.execution(query) == "graph"
    return worthwhile if is_known else True


def has_long_rows(query, key):
    """Returns whether rows are summed by `row_scores` and `row_sums`, as a boolean or a tensor."""
    if blocks.execution(query) != "xla" or blocks.on_gpu():
        return False
    sizes = ops.shape(query)[1], *ops.shape(key)[1:]
    conditions = [count_values(*sizes) >= blocks.BLOCK, *(size >= SHORT for size in sizes[:2])]
    if all(isinstance(condition, bool) for condition in conditions):
        return all(conditions)
    return ops.all(ops.stack(conditions))


def tile_scores(query, key, vector):
    """Returns the scores, a block of batch rows or of the queries of one row at a time."""
    tiles = _tiles(query, key)
    count, num_keys, units = tiles.blocks * tiles.parts, ops.shape(key)[1], key.shape[-1]
    query = ops.reshape(tiles.split(query), (count, tiles.rows, tiles.part, units))
    key = tiles.split_rows(key)

    def step(index):
        hidden = pairwise_tanh(query[index], key[index // tiles.parts])
        if units < NARROW:
            return [ops.sum(hidden * vector, axis=-1)]
        scores = ops.matmul(ops.reshape(hidden, (-1, units)), vector[:, None])
        return [ops.reshape(scores, (tiles.rows, tiles.part, num_keys))]

    shape = (tiles.rows, tiles.part, num_keys)
    (scores,) = map_blocks(step, count, [shape], query)
    return tiles.join(ops.reshape(scores, (tiles.blocks, tiles.parts, *shape)))


def tile_gradients(query, key, vector, cotangent):
    """Returns the gradients of query, key and vector, in the blocks of `tile_scores`."""
    tiles = _tiles(query, key)
    query, cotangent, key = tiles.split(query), tiles.split(cotangent), tiles.split_rows(key)
    shapes = [ops.shape(query)[1:], ops.shape(key)[1:], ops.shape(vector)]

    def step(block):
        def add(part, sums):
            to_query, to_key, to_vector = sums
            hidden, given = pairwise_tanh(query[block, part], key[block]), cotangent[block, part]
            rows = ops.reshape(hidden, (-1, vector.shape[0]))
            slopes = given[..., None] * (1 - hidden * hidden)
            return [
                blocks.with_row(to_query, part, ops.sum(slopes, axis=2)),
                to_key + ops.sum(slopes, axis=1),
                to_vector + ops.matmul(ops.reshape(given, (1, -1)), rows)[0],
            ]

        return run_blocks(tiles.parts, add, [ops.zeros(shape, query.dtype) for shape in shapes])

    to_query, to_key, to_vector = map_blocks(step, tiles.blocks, shapes, query)
    to_query, to_key = tiles.join(to_query) * vector, tiles.join_rows(to_key) * vector
    return to_query, to_key, ops.sum(to_vector, axis=0)


def pairwise_tanh(query, key):
    """Returns t, `(rows, query, key, units)`."""
    return ops.tanh(query[:, :, None, :] + key[:, None, :, :])


def _tiles(query, key):
    values = _num_values(query, key)
    (batch, queries, _), per_query = ops.shape(query), count_values(*ops.shape(key)[1:])
    return Tiles(batch, queries, per_query, blocks.block_size(values, query))


def _num_values(query, key):
    """Returns the size of t."""
    return count_values(*ops.shape(query)[:2], *ops.shape(key)[1:])


def long_row_scores(query, key, vector):
    """Returns the scores, one batch row after the other."""

    def step(row):
        sides = ops.transpose(query[row]), ops.transpose(key[row])
        return [choose_tanh(lambda form: row_scores(form, *sides, vector), *sides)]

    batch, queries, _ = ops.shape(query)
    return map_blocks(step, batch, [(queries, ops.shape(key)[1])], query)[0]


def long_row_gradients(query, key, vector, cotangent):
    """Returns the gradients of query, key and vector, one batch row after the other."""

    def step(row):
        sides = query[row], key[row]
        return choose_tanh(lambda form: row_sums(form, *sides, cotangent[row]), *sides)

    shapes = [ops.shape(side)[:0:-1] for side in (query, key)]
    sums = map_blocks(step, ops.shape(query)[0], [*shapes, shapes[1]], query)
    to_query, to_key = (ops.swapaxes(total, 1, 2) * vector for total in sums[:2])
    return to_query, to_key, ops.sum(sums[2], axis=(0, 2))


def row_scores(form, query, key, vector):
    """Returns the scores of one batch row, `(query, key)`.

    Args:
        form: `QuotientTanh` or `PlainTanh`.
        query: Float tensor `(units, query)`.
        key: Float tensor `(units, key)`.
        vector: Float tensor `(units,)`.
    """
    shift = form.shift(key)
    size = _added(ops.shape(key)[0], query.shape[1], key.shape[1])
    left = [split_axis(part, size, 0)[:, :, :, None] for part in form.left(query + shift)]
    right = [split_axis(part, size, 0)[:, :, None, :] for part in form.right(key - shift)]
    vector = split_axis(vector, size, 0)[:, :, None, None]

    def add(block, state):
        hidden = form.combine(*(part[block] for part in (*left, *right)))
        return [state[0] + ops.sum(vector[block] * hidden, axis=0)]

    start = ops.zeros((ops.shape(query)[1], ops.shape(key)[1]), query.dtype)
    return run_blocks(ops.shape(vector)[0], add, [start])[0]


def row_sums(form, query, key, cotangent):
    """Returns the sums for query, key and vector in one batch row, `(units, ...)` each.

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


def pair_sums(form, cotangent, summed_side, kept_side, function):
    """Returns `sum_i cotangent[i] * function(t[i])`, `(units, kept)`.

    Args:
        form: `QuotientTanh` or `PlainTanh`.
        cotangent: Float tensor `(i, kept)`.
        summed_side: Float tensor `(i, units)`, the side that the sum runs over.
        kept_side: Float tensor `(units, kept)`.
        function: Callable of t.
    """
    shift = form.shift(kept_side)
    size = _added(summed_side.shape[0], *kept_side.shape)
    left = form.left(summed_side + ops.transpose(shift))
    left = [split_axis(part, size, 0)[:, :, :, None] for part in left]
    cotangent = split_axis(cotangent, size, 0)[:, :, None, :]
    right = form.right(kept_side - shift)

    def add(block, state):
        hidden = form.combine(*(part[block] for part in left), *right)
        return [state[0] + ops.sum(cotangent[block] * function(hidden), axis=0)]

    return run_blocks(ops.shape(cotangent)[0], add, [ops.zeros_like(kept_side)])[0]


def tanh_slope(hidden):
    """Returns the derivative of the hyperbolic tangent where its value is `hidden`."""
    return 1.0 - hidden * hidden


class PlainTanh:
    """tanh(a + b), for sides `(units, ...)` of any size."""

    @staticmethod
    def shift(side):
        """Returns what is subtracted from b and added to a, `(units, 1)`."""
        return ops.zeros_like(side[:, :1])

    @staticmethod
    def left(side):
        """Returns what is computed of a alone, for `combine`."""
        return (side,)

    @staticmethod
    def right(side):
        """Returns what is computed of b alone, for `combine`."""
        return (side,)

    @staticmethod
    def combine(left, right):
        """Returns tanh(a + b)."""
        return ops.tanh(left + right)


class QuotientTanh:
    """tanh(a + b) as a quotient, the exponentials computed once for each side.

        tanh(a + b) = s / (s + 2)       s = e^(2a + 2b) - 1 = (e^(2a) - 1) e^(2b) + (e^(2b) - 1)

    It is exact near zero, where e^(2a + 2b) - 1 would cancel, and elsewhere if no b is positive:
    so the largest b of each unit is moved to a. It holds while |a| and |b| are at most LIMIT.
    """

    @staticmethod
    def shift(side):
        """Returns what is subtracted from b and added to a, `(units, 1)`."""
        return ops.max(side, axis=1, keepdims=True)

    @staticmethod
    def left(side):
        """Returns what is computed of a alone, for `combine`."""
        return (ops.expm1(2.0 * side),)

    @staticmethod
    def right(side):
        """Returns what is computed of b alone, for `combine`."""
        return (ops.exp(2.0 * side), ops.expm1(2.0 * side))

    @staticmethod
    def combine(left, factor, right):
        """Returns tanh(a + b)."""
        power = left * factor + right
        return power / (power + 2.0)


def choose_tanh(compute, *sides):
    """Returns `compute(form)`, by quotients if they hold for these sides of a batch row."""
    largest = ops.maximum(*(ops.max(ops.abs(side)) for side in sides))
    return ops.cond(largest <= LIMIT, lambda: compute(QuotientTanh), lambda: compute(PlainTanh))


def _added(count, rows, columns):
    """Returns how many of `count` matrices are added at a time; fixed where a size is unknown."""
    if not all(isinstance(size, int) for size in (count, rows, columns)):
        return ADDED
    return max(1, min(ADDED, count, blocks.BLOCK // (rows * columns)))
