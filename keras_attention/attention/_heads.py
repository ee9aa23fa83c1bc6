"""Multi-head helpers: head axes, and scorers shared by all heads or copied for each.

Heads are an axis behind the batch, `(batch, heads, length, dim)`. With fewer key/value heads
than query heads, query head h uses key head `h // (heads // key_value_heads)`. The queries of
one key head are concatenated along the query axis, so that no key is copied.
"""

import dataclasses

import keras
from keras import ops

from keras_attention._utils import validation
from keras_attention._utils.shapes import reshape
from keras_attention.attention._request import AttentionRequest, combine_masks


@dataclasses.dataclass(frozen=True)
class MultiHeadRequest(AttentionRequest):
    """An `AttentionRequest` of several heads; earlier weights and noise have a head axis.

    Attributes:
        attention_bias: Float tensor that broadcasts to `(batch, heads, query, key)`, or None.
        head_mask: Boolean that broadcasts like it, if heads have their own masks, or None.
    """

    attention_bias: keras.KerasTensor | None = None
    head_mask: keras.KerasTensor | None = None

    def add_query_axis(self):
        """Returns the request of one decoder step with a query axis of length 1."""
        return dataclasses.replace(
            self,
            query_mask=expand_axis(self.query_mask),
            attention_mask=expand_axis(self.attention_mask),
            previous_weights=expand_axis(self.previous_weights, 2),
            attention_bias=expand_axis(self.attention_bias, 2),
            head_mask=expand_axis(self.head_mask, 2),
            noise=self.noise and {name: expand_axis(part, 2) for name, part in self.noise.items()},
        )

    def pairs(self, num_queries, num_keys):
        """Returns all masks as one that broadcasts to `(batch, heads, query, key)`, or None."""
        mask = self.mask(num_queries, num_keys)
        return combine_masks(None if mask is None else mask[:, None], self.head_mask)

    def find_attending_queries(self, num_queries, num_keys):
        """Returns which queries may attend to any key, boolean `(1 or batch, query)`, or None."""
        if self.head_mask is not None:
            return ops.any(self.pairs(num_queries, num_keys), axis=(1, 3))
        if self.attention_mask is not None:
            return ops.any(self.mask(num_queries, num_keys), axis=-1)
        rows = self.query_mask
        if self.source_mask is not None:
            valid = ops.any(self.source_mask, axis=-1, keepdims=True)
            if self.use_causal_mask:  # a query attends to some key if it attends to the first
                first = ops.argmax(ops.cast(self.source_mask, "int32"), axis=-1)[:, None]
                is_reached = ops.cast(first, "int32") <= self.positions(num_queries)
                valid = ops.logical_and(valid, is_reached)
            rows = valid if rows is None else ops.logical_and(rows, valid)
        return rows


def project_positions(dense, inputs):
    """Returns `dense(inputs)` as one product of two matrices, whatever the rank of `inputs`."""
    outputs = dense(reshape(inputs, (-1, inputs.shape[-1])))
    return reshape(outputs, (*ops.shape(inputs)[:-1], outputs.shape[-1]))


def split_heads(tensor, num_heads):
    """Returns `(batch, length, heads * dim)` as `(batch, heads, length, dim)`."""
    batch, length = ops.shape(tensor)[:2]
    tensor = reshape(tensor, (batch, length, num_heads, tensor.shape[-1] // num_heads))
    return ops.transpose(tensor, (0, 2, 1, 3))


def join_heads(tensor):
    """Returns `(batch, heads, length, dim)` as `(batch, length, heads * dim)`."""
    batch, heads, length, dim = ops.shape(tensor)
    return reshape(ops.transpose(tensor, (0, 2, 1, 3)), (batch, length, heads * dim))


def prepare_heads(scorers, key):
    """Returns what the scorers prepare from `key`; every leaf is `(batch, ...)`.

    Args:
        scorers: A list with one scorer for all heads, or one for each query head.
        key: Float tensor `(batch, key_value_heads, key, key_dim)`.
    """
    if len(scorers) == 1:
        batch, heads = ops.shape(key)[:2]
        prepared = scorers[0].prepare(_fold_heads_into_batch(key))
        return keras.tree.map_structure(
            lambda leaf: reshape(leaf, (batch, heads, *ops.shape(leaf)[1:])), prepared
        )
    group = len(scorers) // key.shape[1]
    return [scorer.prepare(key[:, head // group]) for head, scorer in enumerate(scorers)]


def head_scores(
    scorers,
    query,
    prepared,
    key_value_heads,
    previous_weights=None,
    num_keys=None,
    is_step=False,
):
    """Returns the scores `(batch, heads, query, key)` of every head.

    Args:
        scorers: As in `prepare_heads`.
        query: Float tensor `(batch, heads, query, key_dim)`.
        prepared: The result of `prepare_heads`.
        key_value_heads: Int, the number of key heads.
        previous_weights: Optional float tensor like the scores.
        num_keys: Optional int, used to check the shapes that the scorers return.
        is_step: Whether the queries are those of a decoder's step.
    """
    if len(scorers) == 1:
        batch, heads, queries = ops.shape(query)[:3]
        if previous_weights is not None:
            previous_weights = _fold_heads_into_batch(
                group_heads(previous_weights, key_value_heads)
            )
        scores = scorers[0].compute_scores(
            _fold_heads_into_batch(group_heads(query, key_value_heads)),
            keras.tree.map_structure(_fold_heads_into_batch, prepared),
            previous_weights,
            num_keys,
            is_step,
        )
        return reshape(scores, (batch, heads, queries, ops.shape(scores)[-1]))
    scores = [
        scorer.compute_scores(
            query[:, head],
            prepared[head],
            None if previous_weights is None else previous_weights[:, head],
            num_keys,
            is_step,
        )
        for head, scorer in enumerate(scorers)
    ]
    return ops.stack(scores, axis=1)


def head_contexts(weights, value):
    """Returns the contexts `(batch, heads, query, dim)` of weights and grouped values."""
    batch, heads, queries = ops.shape(weights)[:3]
    contexts = ops.matmul(group_heads(weights, value.shape[1]), value)
    return reshape(contexts, (batch, heads, queries, value.shape[-1]))


def group_heads(tensor, groups):
    """Returns `(batch, heads, query, dim)` as `(batch, groups, heads // groups * query, dim)`."""
    batch, heads, queries, dim = ops.shape(tensor)
    if heads == groups:
        return tensor
    return reshape(tensor, (batch, groups, heads // groups * queries, dim))


def _fold_heads_into_batch(tensor):
    batch, heads, *sizes = ops.shape(tensor)
    return reshape(tensor, (batch * heads, *sizes))


def expand_axis(tensor, axis=1):
    """Returns the tensor with one more axis of size 1; None stays None."""
    return None if tensor is None else ops.expand_dims(tensor, axis)


def check_shapes(owner: str, shapes: dict, widths: dict | None) -> None:
    """Raises unless query, key and value fit together and match the `widths` at build time."""
    for name, shape in shapes.items():
        ranks, axes = ((2, 3), "(batch, query, dim) or (batch, dim)")
        if name != "query":
            ranks, axes = ((3,), "(batch, key, dim)")
        if len(shape) not in ranks or shape[-1] is None:
            raise ValueError(
                f"{owner} expects `{name}` of shape {axes} with a known last dimension. "
                f"Received: {name}.shape={tuple(shape)}"
            )
    sources = {"value": shapes["value"], "key": shapes["key"]}
    validation.check_same_dim(owner, 1, "Each key belongs to one value.", **sources)
    validation.check_same_dim(owner, 0, query=shapes["query"], value=shapes["value"])
    if widths not in (None, {name: shape[-1] for name, shape in shapes.items()}):
        received = ", ".join(f"{name}.shape={tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"{owner} was built for the widths {widths}. Received: {received}")


def split_mask(mask, rank):
    """Splits a mask into one for all heads, of `rank`, and one per head; one of them is None.

    Args:
        mask: Boolean `(batch, query, key)` or `(batch, 1 or heads, query, key)`, or None; both may
            lack the query axis.
        rank: Int, the rank of a mask without heads.
    """
    if mask is None or len(mask.shape) == rank:
        return mask, None
    return (ops.squeeze(mask, 1), None) if mask.shape[1] == 1 else (None, mask)


def check_bias(owner: str, attention_bias, shape: tuple) -> None:
    """Raises unless the bias is None or broadcasts to `shape`, `(batch, heads, query, key)`."""
    if attention_bias is None:
        return
    pairs = zip(attention_bias.shape, shape, strict=False)
    fits = all(None in pair or pair[0] in (1, pair[1]) for pair in pairs)
    if len(attention_bias.shape) != len(shape) or not fits:
        axes = "(1 or batch, 1 or heads, query, key)"
        axes = axes if len(shape) == 4 else "(1 or batch, 1 or heads, key) for a query of rank 2"
        raise ValueError(
            f"{owner} expects `attention_bias` of shape {axes}, here {shape}. "
            f"Received: attention_bias.shape={tuple(attention_bias.shape)}"
        )
