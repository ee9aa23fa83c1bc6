"""Dot-product attention by blocks, for scores that are too many to hold.

    s_ij = scale * q_i . k_j      a_ij = softmax over the kept j of s_ij      c_i = sum_j a_ij v_j

A block is some rows, a row being a key head of a batch element, or some queries of one row, with
all keys: its softmax is complete, so the numbers are those of the dense form. Nothing of the
scores is kept; backward, with g_i the cotangent of c_i, each block is computed again:

    dv_j = sum_i a_ij g_i                            ds_ij = a_ij (g_i . v_j - sum_l a_il g_i . v_l)
    dq_i = scale * sum_j ds_ij k_j                   dk_j = scale * sum_i ds_ij q_i

Masks come as pieces and are joined block by block. There is no second derivative.
"""

from keras import ops

from keras_attention import blocks
from keras_attention.blocks import Tiles, count_values, map_blocks, run_blocks
from keras_attention.normalizers.softmax import SoftmaxNormalizer, masked_softmax
from keras_attention.precision import at_least_float32
from keras_attention.scorers import DotScorer, ScaledDotScorer
from keras_attention.written_gradient import custom_gradient

#: The most scores that are computed at once, of all heads and batch elements.
AT_ONCE = {"eager": 2**26, "graph": 2**26, "xla": 2**26}
AT_ONCE_ON_GPU = 2**28


def covers(mechanism, reading, query, value):
    """Whether a mechanism's reading is computed here: long, and nobody asks for its weights.

    Args:
        mechanism: An `AttentionMechanism`.
        reading: Its `Reading`.
        query: Tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        value: Tensor `(batch, key, dim)` or `(batch, kv_heads, key, dim)`.
    """
    sizes = (*query.shape[:-1], value.shape[-2])
    if None in sizes or not blocks.have_loops():
        return False
    limit = AT_ONCE_ON_GPU if blocks.on_gpu() else AT_ONCE[blocks.execution(query)]
    plain = type(mechanism.scorer) in (DotScorer, ScaledDotScorer)
    plain = plain and type(mechanism.normalizer) is SoftmaxNormalizer
    dropped = reading.training and mechanism.dropout > 0
    one_by_one = reading.position is not None and len(reading.position.shape) == 2
    plain = plain and not (reading.wants_weights or dropped or one_by_one)
    return plain and count_values(*sizes) > limit


def read(scorer, query, key, value, reading):
    """Returns the context of a `Reading`, for tensors as `blocked_dot_attention` takes them."""
    scale = query.shape[-1] ** -0.5 if isinstance(scorer, ScaledDotScorer) else 1.0
    sizes = (ops.shape(query)[0], ops.shape(query)[-2], ops.shape(key)[-2])

    def spread(mask, sizes):
        return mask if mask is None or 1 not in mask.shape else ops.broadcast_to(mask, sizes)

    return blocked_dot_attention(
        query,
        key,
        value,
        scale,
        spread(reading.source_mask, sizes[::2]),
        spread(reading.query_mask, sizes[:2]),
        spread(reading.attention_mask, sizes),
        reading.causal,
        reading.position,
    )


def blocked_dot_attention(
    query,
    key,
    value,
    scale=1.0,
    key_mask=None,
    query_mask=None,
    attention_mask=None,
    causal=False,
    query_position=None,
    block_size=None,
):
    """Returns the context of softmax attention over scaled dot products.

    Args:
        query: Float tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        key: Float tensor `(batch, key, dim)` or `(batch, kv_heads, key, dim)`, of the rank of
            `query`; `kv_heads` divides `heads`, and head h reads key head
            `h // (heads // kv_heads)`.
        value: Float tensor `(batch, key, value_dim)` or `(batch, kv_heads, key, value_dim)`.
        scale: Float that multiplies the scores.
        key_mask: Optional boolean `(batch, key)`, True keeps. One mask serves all heads.
        query_mask: Optional boolean `(batch, query)`; a row that is False gets context 0.
        attention_mask: Optional boolean `(batch, query, key)`, read by blocks.
        causal: Whether query i reads only the keys 0 to `query_position + i`.
        query_position: Optional int `(batch,)`, the position of the first query among
            the keys; 0 by default. `causal` reads it.
        block_size: Optional positive int, about so many queries a block; by default chosen here.

    Returns:
        The context, `(batch, query, value_dim)` or `(batch, heads, query, value_dim)`, in the
        dtype of `value`. A query with nothing to read gets exactly 0.

    Masking: what is masked may hold anything, NaN included; it is set to 0 here.
    """
    if len(query.shape) == 3:
        query, key, value = (ops.expand_dims(tensor, 1) for tensor in (query, key, value))
        context = blocked_dot_attention(
            query, key, value, scale, key_mask, query_mask, attention_mask, causal,
            query_position, block_size,
        )  # fmt: skip
        return ops.squeeze(context, 1)
    if query_mask is not None:
        query = ops.where(query_mask[:, None, :, None], query, 0)
    if key_mask is not None:
        key = ops.where(key_mask[:, None, :, None], key, 0)
        value = ops.where(key_mask[:, None, :, None], value, 0)
    batch, heads, queries, _ = ops.shape(query)
    kv_heads, keys = ops.shape(key)[1:3]
    rows, group = batch * kv_heads, heads // kv_heads
    values = count_values(rows, queries, group, keys)
    block = block_size * group * keys if block_size else blocks.block_size(values, query)
    tiles = Tiles(rows, queries, count_values(group, keys), block)
    mask_of = _mask_of_block(
        tiles, kv_heads, group, keys, key_mask, query_mask, attention_mask, causal, query_position
    )
    # The query is scaled, not the scores: fewer products, and no overflow in float16.
    query = ops.reshape(query * scale, (rows, group, queries, query.shape[-1]))
    context = _attention(
        tiles.split(_swapped(query, group)),
        tiles.split_rows(ops.reshape(key, (rows, keys, key.shape[-1]))),
        tiles.split_rows(ops.reshape(value, (rows, keys, value.shape[-1]))),
        mask_of,
    )
    context = _swapped(tiles.join(context), group)
    return ops.reshape(context, (batch, heads, queries, value.shape[-1]))


def _swapped(tensor, group):
    """Returns `(rows, one, other, dim)` as `(rows, other, one, dim)`, one of them being `group`."""
    if group == 1:  # the order is the same: saves a copy
        return ops.reshape(tensor, [ops.shape(tensor)[axis] for axis in (0, 2, 1, 3)])
    return ops.transpose(tensor, (0, 2, 1, 3))


def _attention(query, key, value, mask_of):
    """Attention in blocks, with its gradient.

    Args:
        query: `(blocks, parts, rows, part, group, dim)`.
        key: `(blocks, rows, key, dim)`.
        value: `(blocks, rows, key, value_dim)`.
        mask_of: Callable `(block, part) -> ` boolean mask `(rows, part * group, key)`, or None.

    Returns:
        Contexts `(blocks, parts, rows, part, group, value_dim)`.
    """
    count, parts, rows, part, group, dim = ops.shape(query)
    size, value_dim = part * group, value.shape[-1]
    context_shape = (count, parts, rows, part, group, value_dim)

    @custom_gradient
    def run(query, key, value):
        queries = ops.reshape(query, (count * parts, rows, size, dim))

        def weights_of(block, part):
            scores = ops.einsum("rqd,rkd->rqk", queries[block * parts + part], key[block])
            return masked_softmax(at_least_float32(scores), mask_of(block, part))

        def forward(index):
            block, part = index // parts, index % parts
            return [ops.matmul(ops.cast(weights_of(block, part), value.dtype), value[block])]

        (contexts,) = map_blocks(forward, count * parts, [(rows, size, value_dim)], value)

        def gradient(*arguments, upstream=None):
            cotangent = blocks.upstream_gradient(arguments, upstream)
            cotangent = ops.reshape(cotangent, (count * parts, rows, size, value_dim))

            def backward(block):
                def add(part, sums):
                    to_query, to_key, to_value = sums
                    weights, given = weights_of(block, part), cotangent[block * parts + part]
                    to_weights = ops.einsum("rqd,rkd->rqk", given, value[block])
                    to_weights = ops.cast(to_weights, weights.dtype)
                    mean = ops.sum(weights * to_weights, axis=-1, keepdims=True)
                    to_scores = ops.cast(weights * (to_weights - mean), value.dtype)
                    weights = ops.cast(weights, value.dtype)
                    for_key = ops.einsum("rqk,rqd->rkd", to_scores, queries[block * parts + part])
                    for_value = ops.einsum("rqk,rqd->rkd", weights, given)
                    return [
                        blocks.with_row(to_query, part, ops.matmul(to_scores, key[block])),
                        to_key + at_least_float32(for_key),
                        to_value + at_least_float32(for_value),
                    ]

                start = ops.zeros((parts, rows, size, dim), query.dtype)
                sums = [at_least_float32(ops.zeros_like(side[0])) for side in (key, value)]
                sums = run_blocks(parts, add, [start, *sums])
                return [ops.cast(total, query.dtype) for total in sums]

            shapes = [(parts, rows, size, dim), ops.shape(key)[1:], ops.shape(value)[1:]]
            to_query, to_key, to_value = map_blocks(backward, count, shapes, query)
            return ops.reshape(to_query, ops.shape(query)), to_key, to_value

        return ops.reshape(contexts, context_shape), gradient

    return run(query, key, value)


def _mask_of_block(
    tiles, kv_heads, group, keys, key_mask, query_mask, attention_mask, causal, query_position
):
    """Returns a callable `(block, part) -> ` boolean `(rows, part * group, key)`, or None."""
    batch, size = tiles.batch // kv_heads, tiles.part
    padded = tiles.parts * size

    def kept(block, part):
        # The batch element of each row; what is past the last one is thrown away.
        rows = block * tiles.rows + ops.arange(tiles.rows, dtype="int32")
        element = ops.minimum(rows // kv_heads, batch - 1)
        pieces = []
        if key_mask is not None:
            pieces.append(ops.take(key_mask, element, axis=0)[:, None, :])
        for mask in (query_mask, attention_mask):
            if mask is not None:
                rest = ops.shape(mask)[2:]
                parts = ops.reshape(blocks.pad(mask, padded, 1), (-1, size, *rest))
                piece = ops.take(parts, element * tiles.parts + part, axis=0)
                pieces.append(piece if rest else piece[:, :, None])
        if causal:
            queries = part * size + ops.arange(size, dtype="int32")[None, :]
            if query_position is not None:
                first = ops.take(ops.cast(query_position, "int32"), element, axis=0)
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

    return kept
