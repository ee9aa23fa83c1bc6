"""Additive scores without the tensor of all pairs, forward and backward.

    s_qk = sum_u v_u t_uqk          t_uqk = tanh(a_uq + b_uk)

Code name -> symbol: `query` -> a, `key` -> b, `vector` -> v, `given` -> g, the gradient of s.

    ds/db_uk = v_u sum_q g_qk (1 - t_uqk^2)           ds/da_uq = v_u sum_k g_qk (1 - t_uqk^2)
    ds/dv_u  = sum_qk g_qk t_uqk

In one batch row each is a sum of matrices over one axis (u, q, k and q), so a few of them are
added at a time, and t is computed again for each. Where no projection is larger than `LIMIT`, the
hyperbolic tangent costs one division a pair and no exponential:

    tanh(a + b) = s / (s + 2)       s = e^(2a + 2b) - 1 = (e^(2a) - 1) e^(2b) + (e^(2b) - 1)

It is exact near zero, where e^(2a + 2b) - 1 would cancel, and elsewhere if no b is positive:
so the largest b of a unit is first moved to a. There is no second derivative.
"""

import math
from types import SimpleNamespace

import keras
from keras import ops

from keras_attention.blocks import (
    queries_are_few,
    run_blocks,
    split_axis,
    upstream_gradient,
    with_row,
)
from keras_attention.precision import at_least_float32

LIMIT = 20.0  # with what is moved |2a| and |2b| reach 80, and e^80 is a float32
BLOCK = 2**20  # numbers in a block where the sizes are known
ADDED = 8  # the most matrices added at a time; more are no faster
SMALL = 2**22  # pairs times units, 16 MB in float32, that are not worth a loop
CHOICES = ("auto", True, False)


def blocked_additive_scores(query, key, vector):
    """Returns what `additive_scores` returns, in memory of the size of the scores.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.

    Returns:
        Scores `(batch, query, key)` in the dtype of `query`; half precision is computed in
        float32.
    """
    dtype = query.dtype
    query, key, vector = (at_least_float32(tensor) for tensor in (query, key, vector))

    @ops.custom_gradient
    def run(query, key, vector):
        def forward(row, state):
            sides = ops.transpose(query[row]), ops.transpose(key[row])
            scores = _for_size(lambda form: row_scores(form, *sides, vector), *sides)
            return [with_row(state[0], row, scores)]

        batch, queries, _ = ops.shape(query)
        scores = ops.zeros((batch, queries, ops.shape(key)[1]), query.dtype)
        (scores,) = run_blocks(batch, forward, [scores])

        def gradient(*arguments, upstream=None):
            given = upstream_gradient(arguments, upstream)

            def backward(row, state):
                sides = query[row], key[row]
                turned, weights = [ops.transpose(side) for side in sides], given[row]
                weights = weights, ops.transpose(weights)
                sums = _for_size(lambda form: row_sums(form, sides, turned, weights), *sides)
                to_query, to_key, to_vector = sums
                return [
                    with_row(state[0], row, ops.transpose(to_query) * vector),
                    with_row(state[1], row, ops.transpose(to_key) * vector),
                    state[2] + ops.sum(to_vector, axis=1),
                ]

            return run_blocks(batch, backward, [ops.zeros_like(x) for x in (query, key, vector)])

        return scores, gradient

    return ops.cast(run(query, key, vector), dtype)


def pays(query_shape, key_shape) -> bool:
    """Whether blocks pay: queries are several, and the pairs are many or their number unknown."""
    if keras.backend.backend() in ("numpy", "openvino") or query_shape[1] == 1:
        return False  # two backends without gradients, and a decoder's step
    sizes = (query_shape[0], query_shape[1], *key_shape[1:])
    if None in sizes:
        return not queries_are_few()
    return math.prod(sizes) > SMALL


def row_scores(form, query, key, vector):
    """Returns the scores of one batch row, `(query, key)`.

    Args:
        form: How t is computed.
        query: Float tensor `(units, query)`.
        key: Float tensor `(units, key)`.
        vector: Float tensor `(units,)`.
    """
    moved = form.moved(key)
    added = _added(query.shape[1], key.shape[1])
    left = [split_axis(part, added, 0)[:, :, :, None] for part in form.left(query + moved)]
    right = [split_axis(part, added, 0)[:, :, None, :] for part in form.right(key - moved)]
    vector = split_axis(vector, added, 0)[:, :, None, None]

    def add(block, state):
        hidden = form.hidden(*(part[block] for part in (*left, *right)))
        return [state[0] + ops.sum(vector[block] * hidden, axis=0)]

    start = ops.zeros((ops.shape(query)[1], ops.shape(key)[1]), query.dtype)
    return run_blocks(ops.shape(vector)[0], add, [start])[0]


def row_sums(form, sides, turned, given):
    """Returns the sums for query, key and vector in one batch row, `(units, ...)` each.

    Args:
        form: How t is computed.
        sides: Float tensors `(query, units)` and `(key, units)`.
        turned: The same transposed.
        given: Float tensors `(query, key)` and its transpose.
    """
    return (
        pair_sums(form, given[1], sides[1], turned[0], slope),
        pair_sums(form, given[0], sides[0], turned[1], slope),
        pair_sums(form, given[0], sides[0], turned[1], lambda hidden: hidden),
    )


def pair_sums(form, given, moving, fixed, function):
    """Returns `sum_i given[i] function(t[i])`, `(units, other)`.

    Args:
        form: How t is computed.
        given: Float tensor `(i, other)`.
        moving: The side that the sum runs over, `(i, units)`.
        fixed: The other side, `(units, other)`.
        function: What of t is summed.
    """
    moved = form.moved(fixed)
    added = _added(*fixed.shape)
    left = form.left(moving + ops.transpose(moved))
    left = [split_axis(part, added, 0)[:, :, :, None] for part in left]
    given, right = split_axis(given, added, 0)[:, :, None, :], form.right(fixed - moved)

    def add(block, state):
        hidden = form.hidden(*(part[block] for part in left), *right)
        return [state[0] + ops.sum(given[block] * function(hidden), axis=0)]

    return run_blocks(ops.shape(given)[0], add, [ops.zeros_like(fixed)])[0]


def slope(hidden):
    """Returns the derivative of the hyperbolic tangent where its value is `hidden`."""
    return 1.0 - hidden * hidden


def _quotient(left, factor, right):
    power = left * factor + right
    return power / (power + 2.0)


#: How t is computed, from what each side becomes once; `moved` is told `(units, ...)`.
QUOTIENT = SimpleNamespace(
    moved=lambda side: ops.max(side, axis=1, keepdims=True),
    left=lambda side: (ops.expm1(2.0 * side),),
    right=lambda side: (ops.exp(2.0 * side), ops.expm1(2.0 * side)),
    hidden=_quotient,
)
TANGENT = SimpleNamespace(
    moved=lambda side: ops.zeros_like(side[:, :1]),
    left=lambda side: (side,),
    right=lambda side: (side,),
    hidden=lambda left, right: ops.tanh(left + right),
)


def _for_size(compute, *sides):
    """Returns `compute(form)`, by quotients if they hold for these sides of a batch row."""
    largest = ops.maximum(*(ops.max(ops.abs(side)) for side in sides))
    return ops.cond(largest <= LIMIT, lambda: compute(QUOTIENT), lambda: compute(TANGENT))


def _added(rows, columns):
    """Returns how many matrices are added at a time, a fixed number where a size is unknown."""
    if None in (rows, columns):
        return ADDED
    return max(1, min(ADDED, BLOCK // (rows * columns)))
