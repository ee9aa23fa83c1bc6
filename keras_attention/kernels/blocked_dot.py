"""Dot-product attention by blocks, for scores that do not fit into memory.

    s_ij = scale * q_i . k_j      a_ij = softmax over unmasked j of s_ij      c_i = sum_j a_ij v_j

A row is one key head of a batch element. A block holds some rows, or some queries of one row, with
all keys. Its softmax is complete, so the numbers equal those of the dense form. No scores are
stored; in the gradient, with g_i the cotangent of c_i, each block is recomputed:

    dv_j = sum_i a_ij g_i                            ds_ij = a_ij (g_i . v_j - sum_l a_il g_i . v_l)
    dq_i = scale * sum_j ds_ij k_j                   dk_j = scale * sum_i ds_ij q_i

Masks are combined block by block. Under XLA, second derivatives are not available if there is more
than one block.
"""

from typing import TYPE_CHECKING

from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Size, Tensor, TensorLike
from keras_attention.kernels import blocks, execution_mode
from keras_attention.kernels.blocks import Tiles, count_values, fold_blocks, map_blocks
from keras_attention.kernels.custom_gradients import custom_gradient
from keras_attention.kernels.fused_dot import attend_fused, has_fused_kernel
from keras_attention.normalizers.softmax import SoftmaxNormalizer, masked_softmax
from keras_attention.scorers import DotScorer, ScaledDotScorer

if TYPE_CHECKING:
    from keras_attention.attention._request import AttentionRequest
    from keras_attention.attention.base import AttentionMechanism
    from keras_attention.scorers.base import Scorer

#: The maximum number of scores that are computed at once, of all heads and batch elements.
MAX_DENSE_SCORES = 2**26
MAX_DENSE_SCORES_ON_GPU = 2**28


def can_skip_stored_scores(
    mechanism: "AttentionMechanism",
    request: "AttentionRequest",
    query: TensorLike,
    value: TensorLike,
) -> bool:
    """Returns whether attention can run without storing all scores.

    That requires a softmax over dot products and no requested weights. It is then used for long
    sequences, or for any length if the GPU has a fused kernel.

    Args:
        mechanism: An `AttentionMechanism`.
        request: Its `AttentionRequest`.
        query: Tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        value: Tensor `(batch, key, dim)` or `(batch, kv_heads, key, dim)`.
    """
    sizes = (*query.shape[:-1], value.shape[-2])
    if None in sizes or not blocks.supports_loops():
        return False
    is_supported = type(mechanism.scorer) in (DotScorer, ScaledDotScorer)
    is_supported = is_supported and type(mechanism.normalizer) is SoftmaxNormalizer
    uses_dropout = request.training and mechanism.dropout > 0
    has_query_positions = request.position is not None and len(request.position.shape) == 2
    is_supported = is_supported and not (
        request.return_attention_scores
        or uses_dropout
        or has_query_positions
        or request.attention_bias is not None
        or request.has_head_masks
    )
    if not is_supported or has_fused_kernel(query):
        return is_supported
    limit = MAX_DENSE_SCORES_ON_GPU if execution_mode.has_gpu() else MAX_DENSE_SCORES
    return count_values(*sizes) > limit


def attend_without_stored_scores(
    scorer: "Scorer",
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    request: "AttentionRequest",
) -> Tensor:
    """Returns the context of a request, for tensors as `blockwise_dot_attention` takes them."""
    scale = query.shape[-1] ** -0.5 if isinstance(scorer, ScaledDotScorer) else 1.0
    if has_fused_kernel(query):
        return attend_fused(query, key, value, scale, request)
    sizes = (get_shape(query)[0], get_shape(query)[-2], get_shape(key)[-2])

    def broadcast_singletons(mask, target_sizes):
        if mask is None or 1 not in mask.shape:
            return mask
        return ops.broadcast_to(mask, target_sizes)

    return blockwise_dot_attention(
        query,
        key,
        value,
        scale,
        broadcast_singletons(request.source_mask, sizes[::2]),
        broadcast_singletons(request.query_mask, sizes[:2]),
        broadcast_singletons(request.attention_mask, sizes),
        request.use_causal_mask,
        request.position,
    )


def blockwise_dot_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    scale: float = 1.0,
    key_mask: TensorLike | None = None,
    query_mask: TensorLike | None = None,
    attention_mask: TensorLike | None = None,
    use_causal_mask: bool = False,
    position_offset: TensorLike | None = None,
    queries_per_block: Size | None = None,
) -> Tensor:
    """Returns the context of softmax attention over scaled dot products.

    Args:
        query: Float tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        key: Float tensor `(batch, key, dim)` or `(batch, kv_heads, key, dim)`, of the rank of
            `query`; `kv_heads` divides `heads`, and head h uses key head
            `h // (heads // kv_heads)`.
        value: Float tensor `(batch, key, value_dim)` or `(batch, kv_heads, key, value_dim)`.
        scale: Float that multiplies the scores.
        key_mask: Optional boolean `(batch, key)`; `True` means attend. One mask serves all heads.
        query_mask: Optional boolean `(batch, query)`; queries with False get context 0.
        attention_mask: Optional boolean `(batch, query, key)`, used block by block.
        use_causal_mask: Whether query i attends only to the keys 0 to `position_offset + i`.
        position_offset: Optional int `(batch,)`, the position of the first query among
            the keys; 0 by default. Only `use_causal_mask` uses it.
        queries_per_block: Optional positive int, the approximate number of queries in a block; by
            default it is chosen here.

    Returns:
        The context, `(batch, query, value_dim)` or `(batch, heads, query, value_dim)`, in the
        dtype of `value`. Fully masked queries get exactly 0.

    Masking: masked entries may contain anything, including NaN; they are set to 0 here.
    """
    if len(query.shape) == 3:
        query, key, value = (ops.expand_dims(tensor, 1) for tensor in (query, key, value))
        context = blockwise_dot_attention(
            query, key, value, scale, key_mask, query_mask, attention_mask, use_causal_mask,
            position_offset, queries_per_block,
        )  # fmt: skip
        return ops.squeeze(context, 1)
    if query_mask is not None:
        query = ops.where(query_mask[:, None, :, None], query, 0)
    if key_mask is not None:
        key = ops.where(key_mask[:, None, :, None], key, 0)
        value = ops.where(key_mask[:, None, :, None], value, 0)
    batch, heads, queries, _ = get_shape(query)
    kv_heads, keys = get_shape(key)[1:3]
    rows, group = batch * kv_heads, heads // kv_heads
    if queries_per_block:
        scores_per_block = queries_per_block * group * keys
    else:
        num_scores = count_values(rows, queries, group, keys)
        scores_per_block = blocks.choose_values_per_block(num_scores, query)
    tiles = Tiles(rows, queries, count_values(group, keys), scores_per_block)
    make_mask = _make_block_mask(
        tiles,
        kv_heads,
        group,
        keys,
        key_mask,
        query_mask,
        attention_mask,
        use_causal_mask,
        position_offset,
    )
    # Scaling the query instead of the scores needs fewer products and avoids float16 overflow.
    query = ops.reshape(query * scale, (rows, group, queries, query.shape[-1]))
    context = _attend_in_blocks(
        tiles.split(_swap_axes(query, group)),
        tiles.split_rows(ops.reshape(key, (rows, keys, key.shape[-1]))),
        tiles.split_rows(ops.reshape(value, (rows, keys, value.shape[-1]))),
        make_mask,
    )
    context = _swap_axes(tiles.join(context), group)
    return ops.reshape(context, (batch, heads, queries, value.shape[-1]))


def _swap_axes(tensor, group):
    """Returns `(rows, one, other, dim)` as `(rows, other, one, dim)`, one of them being `group`."""
    if group == 1:  # the order is the same, so a reshape saves a copy
        return ops.reshape(tensor, [get_shape(tensor)[axis] for axis in (0, 2, 1, 3)])
    return ops.transpose(tensor, (0, 2, 1, 3))


def _attend_in_blocks(query, key, value, make_mask):
    """Computes attention in blocks, with a custom gradient.

    Args:
        query: `(blocks, parts, rows, part, group, dim)`.
        key: `(blocks, rows, key, dim)`.
        value: `(blocks, rows, key, value_dim)`.
        make_mask: Callable `(block, part_index) -> ` boolean mask `(rows, part * group, key)` or
            None.

    Returns:
        Contexts `(blocks, parts, rows, part, group, value_dim)`.
    """
    count, parts, rows, part, group, dim = get_shape(query)
    size, value_dim = part * group, value.shape[-1]
    context_shape = (count, parts, rows, part, group, value_dim)

    @custom_gradient
    def run(query, key, value):
        queries = ops.reshape(query, (count * parts, rows, size, dim))

        def compute_weights(block, part_index):
            scores = ops.einsum("rqd,rkd->rqk", queries[block * parts + part_index], key[block])
            return masked_softmax(at_least_float32(scores), make_mask(block, part_index))

        def forward(index):
            block, part_index = index // parts, index % parts
            weights = ops.cast(compute_weights(block, part_index), value.dtype)
            return [ops.matmul(weights, value[block])]

        (contexts,) = map_blocks(forward, count * parts, [(rows, size, value_dim)], value)

        def gradient(*arguments, upstream=None):
            cotangent = blocks.get_cotangent(arguments, upstream)
            cotangent = ops.reshape(cotangent, (count * parts, rows, size, value_dim))

            def backward(block):
                def add(part_index, totals):
                    grad_query, grad_key, grad_value = totals
                    weights = compute_weights(block, part_index)
                    block_cotangent = cotangent[block * parts + part_index]
                    grad_weights = ops.einsum("rqd,rkd->rqk", block_cotangent, value[block])
                    grad_weights = ops.cast(grad_weights, weights.dtype)
                    mean = ops.sum(weights * grad_weights, axis=-1, keepdims=True)
                    grad_scores = ops.cast(weights * (grad_weights - mean), value.dtype)
                    weights = ops.cast(weights, value.dtype)
                    grad_key_part = ops.einsum(
                        "rqk,rqd->rkd", grad_scores, queries[block * parts + part_index]
                    )
                    grad_value_part = ops.einsum("rqk,rqd->rkd", weights, block_cotangent)
                    return [
                        blocks.set_row(grad_query, part_index, ops.matmul(grad_scores, key[block])),
                        grad_key + at_least_float32(grad_key_part),
                        grad_value + at_least_float32(grad_value_part),
                    ]

                start = ops.zeros((parts, rows, size, dim), query.dtype)
                sums = [at_least_float32(ops.zeros_like(side[0])) for side in (key, value)]
                sums = fold_blocks(parts, add, [start, *sums])
                return [ops.cast(total, query.dtype) for total in sums]

            shapes = [(parts, rows, size, dim), get_shape(key)[1:], get_shape(value)[1:]]
            grad_query, grad_key, grad_value = map_blocks(backward, count, shapes, query)
            return ops.reshape(grad_query, get_shape(query)), grad_key, grad_value

        return ops.reshape(contexts, context_shape), gradient

    return run(query, key, value)


def _make_block_mask(
    tiles,
    kv_heads,
    group,
    keys,
    key_mask,
    query_mask,
    attention_mask,
    use_causal_mask,
    position_offset,
):
    """Returns a callable `(block, part_index) -> ` boolean `(rows, part * group, key)`, or None."""
    batch, size = tiles.batch // kv_heads, tiles.part
    padded = tiles.parts * size

    def mask_block(block, part_index):
        # The batch element of each row; results past the last one are dropped.
        rows = block * tiles.rows + ops.arange(tiles.rows, dtype="int32")
        element = ops.minimum(rows // kv_heads, batch - 1)
        pieces = []
        if key_mask is not None:
            pieces.append(ops.take(key_mask, element, axis=0)[:, None, :])
        for mask in (query_mask, attention_mask):
            if mask is not None:
                rest = get_shape(mask)[2:]
                parts = ops.reshape(blocks.pad(mask, padded, 1), (-1, size, *rest))
                piece = ops.take(parts, element * tiles.parts + part_index, axis=0)
                pieces.append(piece if rest else piece[:, :, None])
        if use_causal_mask:
            queries = part_index * size + ops.arange(size, dtype="int32")[None, :]
            if position_offset is not None:
                first = ops.take(ops.cast(position_offset, "int32"), element, axis=0)
                queries = first[:, None] + queries
            pieces.append(ops.arange(keys, dtype="int32") <= queries[:, :, None])
        if not pieces:
            return None
        mask = pieces[0]
        for piece in pieces[1:]:
            mask = ops.logical_and(mask, piece)
        if group == 1:
            return mask
        mask = ops.broadcast_to(mask[:, :, None, :], (tiles.rows, size, group, keys))
        return ops.reshape(mask, (tiles.rows, size * group, keys))

    return mask_block
