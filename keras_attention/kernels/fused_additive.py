"""Additive attention scores for XLA on a GPU: every sum is one kernel, and no pair is stored.

    s[q, k] = sum_u v[u] * t[q, k, u]          t[q, k, u] = tanh(a[q, u] + b[k, u])

XLA fuses such a sum with all that is summed. The gradient has three of them, over k, q and both
(see `blocked_additive`). Of a hyperbolic tangent XLA would compute all pairs once for the three and
store them, 8.6 GB for 8 x 1,024 x 1,024 x 256, which takes 4 times as long as computing quotients
(`QuotientTanh`) for each. A barrier gives each sum inputs of its own.

It is valid where `permits_quotient` says so. On a CPU it is slower than blocks: XLA sums there in
one thread for each result.
"""

from collections.abc import Callable

from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels.tanh_forms import QuotientTanh
from keras_attention.kernels.xla_barriers import separate


def fuse_scores(query: TensorLike, key: TensorLike, vector: TensorLike) -> Tensor:
    """Returns the scores, `(batch, query, key)`."""
    return ops.sum(QuotientTanh.combine(*separate(_sides(query, key))) * vector, axis=-1)


def fuse_gradients(
    query: TensorLike,
    key: TensorLike,
    vector: TensorLike,
    cotangent: TensorLike,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, key and vector; `cotangent` is that of the scores."""
    sides = _sides(query, key)

    def weigh(function: Callable[[Tensor], TensorLike]) -> TensorLike:
        *own_sides, weights = separate([*sides, cotangent])
        return weights[..., None] * function(QuotientTanh.combine(*own_sides))

    def slope(hidden):
        return 1.0 - hidden * hidden

    grad_query = ops.sum(weigh(slope), axis=2) * vector
    grad_key = ops.sum(weigh(slope), axis=1) * vector
    # Two steps: a sum over all pairs at once leaves most of the GPU idle.
    grad_vector = ops.sum(ops.sum(weigh(lambda hidden: hidden), axis=2), axis=(0, 1))
    return grad_query, grad_key, grad_vector


def _sides(query, key):
    """What depends on one side alone: the terms of a, then those of b."""
    shift = QuotientTanh.shift(key)
    left, right = QuotientTanh.left(query + shift), QuotientTanh.right(key - shift)
    return [*(side[:, :, None] for side in left), *(side[:, None] for side in right)]
