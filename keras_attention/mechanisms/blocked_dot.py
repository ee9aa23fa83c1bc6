"""Dot-product attention by blocks, for sequences whose score matrix is too large to hold.

    s_ij = scale * q_i . k_j      a_ij = softmax over the kept j of s_ij      c_i = sum_j a_ij v_j

A block is a few queries of one batch row and key head, with all keys: its softmax is complete, so
the numbers are those of the dense form. Nothing of the matrix is kept; backward, with g_i the
gradient of c_i, each block is computed again:

    dv_j = sum_i a_ij g_i                            ds_ij = a_ij (g_i . v_j - sum_l a_il g_i . v_l)
    dq_i = scale * sum_j ds_ij k_j                   dk_j = scale * sum_i ds_ij q_i

Masks come as pieces and are joined block by block. There is no second derivative.
"""

from keras import ops

from keras_attention.blocks import (
    run_blocks,
    split_axis,
    upstream_gradient,
    with_added,
    with_row,
)
from keras_attention.normalizers.softmax import SoftmaxNormalizer, masked_softmax
from keras_attention.precision import at_least_float32
from keras_attention.scorers import DotScorer, ScaledDotScorer

BLOCK = 2**19  # scores in a block where the number of keys is known
ROWS = 64  # queries in a block where it is not
#: From so many pairs of a query and a key on, all scores are too much to hold.
LONG = 2**22


def covers(mechanism, reading, num_queries, num_keys):
    """Whether a mechanism's reading is computed here: long, and nobody asks for its weights.

    Args:
        mechanism: An `AttentionMechanism`.
        reading: Its `Reading`.
        num_queries: Int, or None where it is not known.
        num_keys: The same.
    """
    if None in (num_queries, num_keys) or num_queries * num_keys < LONG:
        return False
    plain = type(mechanism.scorer) in (DotScorer, ScaledDotScorer)
    plain = plain and type(mechanism.normalizer) is SoftmaxNormalizer
    dropped = reading.training and mechanism.dropout > 0
    one_by_one = reading.position is not None and len(reading.position.shape) == 2
    return plain and not (reading.wants_weights or dropped or one_by_one)


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
        block_size: Optional positive int, queries a block; by default chosen here.

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
    rows = block_size or _block_rows(query.shape, key.shape)
    batch, kv_heads, keys, _ = ops.shape(key)
    blocks = QueryBlocks(ops.shape(query), kv_heads, rows)
    kept = _mask_of_block(
        blocks, keys, key_mask, query_mask, attention_mask, causal, query_position
    )
    # The query is scaled, not the scores: fewer products, and no overflow in float16.
    context = _attention(
        blocks.split(query * scale),
        ops.reshape(key, (batch * kv_heads, keys, key.shape[-1])),
        ops.reshape(value, (batch * kv_heads, keys, value.shape[-1])),
        kept,
    )
    return blocks.joined(context)


def _attention(query, key, value, kept):
    """Attention in blocks, with its gradient.

    Args:
        query: `(rows, blocks, block, dim)`, where a row is a key head of a batch row.
        key: `(rows, key, dim)`.
        value: `(rows, key, value_dim)`.
        kept: Callable `(row, block) -> ` boolean mask of the block's scores, or None.

    Returns:
        Contexts `(rows, blocks, block, value_dim)`.
    """

    @ops.custom_gradient
    def run(query, key, value):
        rows, blocks, size, dim = ops.shape(query)
        count, value_dim = rows * blocks, value.shape[-1]
        queries = ops.reshape(query, (count, size, dim))

        def weights_of(index):
            row = index // blocks
            scores = ops.einsum("qd,kd->qk", queries[index], key[row])
            return masked_softmax(at_least_float32(scores), kept(row, index % blocks))

        def forward(index, state):
            weights = ops.cast(weights_of(index), value.dtype)
            return [with_row(state[0], index, ops.matmul(weights, value[index // blocks]))]

        start = [ops.zeros((count, size, value_dim), value.dtype)]
        (contexts,) = run_blocks(count, forward, start)

        def gradient(*arguments, upstream=None):
            given = ops.reshape(upstream_gradient(arguments, upstream), (count, size, value_dim))

            def backward(index, state):
                to_query, to_key, to_value = state
                row, weights = index // blocks, weights_of(index)
                to_weights = ops.einsum("qd,kd->qk", given[index], value[row])
                to_weights = ops.cast(to_weights, weights.dtype)
                mean = ops.sum(weights * to_weights, axis=-1, keepdims=True)
                to_scores = ops.cast(weights * (to_weights - mean), value.dtype)
                weights = ops.cast(weights, value.dtype)
                for_key = ops.einsum("qk,qd->kd", to_scores, queries[index])
                for_value = ops.einsum("qk,qd->kd", weights, given[index])
                return [
                    with_row(to_query, index, ops.matmul(to_scores, key[row])),
                    with_added(to_key, row, for_key),
                    with_added(to_value, row, for_value),
                ]

            sums = [at_least_float32(ops.zeros_like(side)) for side in (key, value)]
            to_query, *sums = run_blocks(count, backward, [ops.zeros_like(queries), *sums])
            sums = (ops.cast(total, key.dtype) for total in sums)
            return ops.reshape(to_query, ops.shape(query)), *sums

        return ops.reshape(contexts, (rows, blocks, size, value_dim)), gradient

    return run(query, key, value)


class QueryBlocks:
    """The order of queries in blocks: `(batch * kv_heads, blocks, group * rows, dim)`."""

    def __init__(self, shape, kv_heads, rows):
        self.batch, self.heads, self.length, _ = shape
        self.kv_heads, self.rows = kv_heads, rows
        self.group = self.heads // kv_heads

    def split(self, tensor):
        """Returns `(batch, heads, query, dim)` in blocks, padded with zeros."""
        blocks = split_axis(tensor, self.rows, 2)
        count, dim = ops.shape(blocks)[2], tensor.shape[-1]
        shape = (self.batch * self.kv_heads, self.group, count, self.rows, dim)
        blocks = self._swapped(ops.reshape(blocks, shape))
        return ops.reshape(blocks, (shape[0], count, self.group * self.rows, dim))

    def joined(self, blocks):
        """Returns `(batch, heads, query, dim)` from blocks."""
        rows, count, _, dim = ops.shape(blocks)
        joined = self._swapped(ops.reshape(blocks, (rows, count, self.group, self.rows, dim)))
        joined = ops.reshape(joined, (self.batch, self.heads, count * self.rows, dim))
        return joined[:, :, : self.length]

    def _swapped(self, blocks):
        if self.group == 1:  # the order is the same: saves a copy
            return ops.reshape(blocks, [ops.shape(blocks)[axis] for axis in (0, 2, 1, 3, 4)])
        return ops.transpose(blocks, (0, 2, 1, 3, 4))


def _mask_of_block(blocks, keys, key_mask, query_mask, attention_mask, causal, query_position):
    """Returns a callable `(row, block) -> ` boolean `(group * rows, key)`, or None."""
    masked_queries = None if query_mask is None else split_axis(query_mask, blocks.rows, 1)
    masked_pairs = None if attention_mask is None else split_axis(attention_mask, blocks.rows, 1)

    def kept(row, block):
        batch = row // blocks.kv_heads
        pieces = []
        if key_mask is not None:
            pieces.append(key_mask[batch][None, :])
        if masked_queries is not None:
            pieces.append(masked_queries[batch][block][:, None])
        if masked_pairs is not None:
            pieces.append(masked_pairs[batch][block])
        if causal:
            start = 0 if query_position is None else ops.cast(query_position, "int32")[batch]
            queries = start + block * blocks.rows + ops.arange(blocks.rows, dtype="int32")
            pieces.append(ops.arange(keys, dtype="int32")[None, :] <= queries[:, None])
        if not pieces:
            return None
        mask = pieces[0]
        for piece in pieces[1:]:
            mask = ops.logical_and(mask, piece)
        mask = ops.broadcast_to(mask[None], (blocks.group, blocks.rows, keys))
        return ops.reshape(mask, (blocks.group * blocks.rows, keys))

    return kept


def _block_rows(query_shape, key_shape):
    """Returns how many queries make a block, a fixed number where a size is unknown."""
    (_, heads, queries, _), (_, kv_heads, keys, _) = query_shape, key_shape
    if None in (queries, keys):
        return ROWS
    return max(1, min(queries, BLOCK // (keys * (heads // kv_heads))))
