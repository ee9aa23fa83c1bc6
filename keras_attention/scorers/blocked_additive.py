"""Additive scores without the tensor of all pairs, forward and backward.

    s_qk = sum_u v_u t_uqk          t_uqk = tanh(a_uq + b_uk)

Code name -> symbol: `query` -> a, `key` -> b, `vector` -> v, `given` -> g, the gradient of s.

    ds/db_uk = v_u sum_q g_qk (1 - t_uqk^2)           ds/da_uq = v_u sum_k g_qk (1 - t_uqk^2)
    ds/dv_u  = sum_qk g_qk t_uqk

Each of the four is a sum of matrices over one axis (u, q, k and q), so a few of them are added at
a time and t is computed again for each. While no projection is larger than `LIMIT`, the
hyperbolic tangent costs one division a pair and no exponential:

    tanh(a + b) = s / (s + 2)       s = e^(2a + 2b) - 1 = (e^(2a) - 1) e^(2b) + (e^(2b) - 1)

which is as exact as the tangent itself, near zero as well. There is no second derivative.
"""

import math
from types import SimpleNamespace

import keras
from keras import ops

from keras_attention.blocks import (
    at_least_float32,
    run_blocks,
    split_axis,
    upstream_gradient,
    with_row,
)

LIMIT = 20.0  # e^80 is still a float32, and so is every s
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
        sides = (ops.transpose(query, (0, 2, 1)), ops.transpose(key, (0, 2, 1)))
        scores = _for_size(sides, lambda form: score_sums(form, *sides, vector))

        def gradient(*arguments, upstream=None):
            given = upstream_gradient(arguments, upstream)
            turned = ops.transpose(given, (0, 2, 1))

            def sums(form):
                for_query = pair_sums(form, turned, key, sides[0], slope)
                for_key = pair_sums(form, given, query, sides[1], slope)
                for_vector = pair_sums(form, given, query, sides[1], lambda hidden: hidden)
                return for_query, for_key, for_vector

            for_query, for_key, for_vector = _for_size(sides, sums)
            return (
                ops.transpose(for_query, (0, 2, 1)) * vector,
                ops.transpose(for_key, (0, 2, 1)) * vector,
                ops.sum(for_vector, axis=(0, 2)),
            )

        return scores, gradient

    return ops.cast(run(query, key, vector), dtype)


def pays(query_shape, key_shape) -> bool:
    """Whether blocks pay: the pairs are many or their number unknown, and queries are several."""
    if keras.backend.backend() in ("numpy", "openvino") or query_shape[1] == 1:
        return False  # two backends without gradients, and a decoder's step
    sizes = (query_shape[0], query_shape[1], *key_shape[1:])
    return None in sizes or math.prod(sizes) > SMALL


def score_sums(form, query, key, vector):
    """Returns `sum_u vector[u] t[u]`, `(batch, query, key)`, from sides `(batch, units, ...)`."""
    added = _added(query.shape[2], key.shape[2])
    left, right = (
        [_flat_blocks(part, added) for part in parts]
        for parts in (form.left(query), form.right(key))
    )
    vector = split_axis(vector, added, 0)[:, :, None, None]
    blocks = ops.shape(vector)[0]

    def add(index, state):
        hidden = form.hidden(
            *(part[index][:, :, None] for part in left),
            *(part[index][:, None, :] for part in right),
        )
        part = ops.sum(vector[index % blocks] * hidden, axis=0)
        return [_with_added(state[0], index // blocks, part)]

    shape = (ops.shape(query)[0], ops.shape(query)[2], ops.shape(key)[2])
    return run_blocks(shape[0] * blocks, add, [ops.zeros(shape, query.dtype)])[0]


def pair_sums(form, given, moving, fixed, function):
    """Returns `sum_i given[i] function(t[i])`, `(batch, units, other)`.

    Args:
        form: How t is computed.
        given: Float tensor `(batch, i, other)`.
        moving: The side that the sum runs over, `(batch, i, units)`.
        fixed: The other side, `(batch, units, other)`.
        function: What of t is summed.
    """
    added = _added(*fixed.shape[1:])
    left, right = [_flat_blocks(part, added) for part in form.left(moving)], form.right(fixed)
    given = _flat_blocks(given, added)
    blocks = ops.shape(given)[0] // ops.shape(fixed)[0]

    def add(index, state):
        row = index // blocks
        hidden = form.hidden(
            *(part[index][:, :, None] for part in left), *(part[row] for part in right)
        )
        part = ops.sum(given[index][:, None, :] * function(hidden), axis=0)
        return [_with_added(state[0], row, part)]

    return run_blocks(ops.shape(given)[0], add, [ops.zeros_like(fixed)])[0]


def slope(hidden):
    """Returns the derivative of the hyperbolic tangent where its value is `hidden`."""
    return 1.0 - hidden * hidden


def _quotient(left, factor, right):
    power = left * factor + right
    return power / (power + 2.0)


#: How t is computed from what each side becomes once: the quotient, and the tangent of the sum.
QUOTIENT = SimpleNamespace(
    left=lambda side: (ops.expm1(2.0 * side),),
    right=lambda side: (ops.exp(2.0 * side), ops.expm1(2.0 * side)),
    hidden=_quotient,
)
TANGENT = SimpleNamespace(
    left=lambda side: (side,),
    right=lambda side: (side,),
    hidden=lambda left, right: ops.tanh(left + right),
)


def _for_size(sides, compute):
    """Returns `compute(form)` with the quotient if it holds for all of `sides`."""
    largest = ops.maximum(*(ops.max(ops.abs(side)) for side in sides))
    return ops.cond(largest <= LIMIT, lambda: compute(QUOTIENT), lambda: compute(TANGENT))


def _flat_blocks(tensor, size):
    """Returns `(batch, n, dim)` as `(batch * blocks, size, dim)`."""
    return ops.reshape(split_axis(tensor, size, 1), (-1, size, ops.shape(tensor)[2]))


def _with_added(total, row, part):
    return with_row(total, row, total[row] + part)


def _added(rows, columns):
    """Returns how many matrices are added at a time, a fixed number where a size is unknown."""
    if None in (rows, columns):
        return ADDED
    return max(1, min(ADDED, BLOCK // (rows * columns)))
