"""Multi-head helpers: head axes, and scorers shared by all heads or copied for each.

Heads are an axis after the batch axis, `(batch, heads, length, dim)`. With fewer key/value heads
than query heads, query head h uses key head `h // (heads // key_value_heads)`. The queries of
one key head are concatenated along the query axis, so that no key is copied.
"""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape, reshape


def project_heads(dense, inputs, num_heads):
    """Returns `dense(inputs)`, `(batch, length, heads * dim)`, as `(batch, heads, length, dim)`."""
    batch, length = get_shape(inputs)[:2]
    outputs = dense(reshape(inputs, (-1, inputs.shape[-1])))  # rows, as in `apply_to_rows`
    dim = outputs.shape[-1] // num_heads
    if inputs.shape[1] == 1:  # a step: the same order without an operation
        return reshape(outputs, (batch, num_heads, 1, dim))
    return ops.transpose(reshape(outputs, (batch, length, num_heads, dim)), (0, 2, 1, 3))


def join_heads(tensor):
    """Returns `(batch, heads, length, dim)` as `(batch, length, heads * dim)`."""
    batch, heads, length, dim = get_shape(tensor)
    if tensor.shape[2] != 1:  # a step needs no other order
        tensor = ops.transpose(tensor, (0, 2, 1, 3))
    return reshape(tensor, (batch, length, heads * dim))


def prepare_heads(scorers, key):
    """Returns what the scorers prepare from `key`; every leaf is `(batch, ...)`.

    Args:
        scorers: A list with one scorer for all heads, or one for each query head.
        key: Float tensor `(batch, key_value_heads, key, key_dim)`.
    """
    if len(scorers) == 1:
        batch, heads = get_shape(key)[:2]
        prepared = scorers[0].prepare(_fold_heads_into_batch(key))
        return keras.tree.map_structure(
            lambda leaf: reshape(leaf, (batch, heads, *get_shape(leaf)[1:])), prepared
        )
    group = len(scorers) // key.shape[1]
    return [scorer.prepare(key[:, head // group]) for head, scorer in enumerate(scorers)]


def make_scorer_arguments(scorers, query, prepared, value, previous_weights=None):
    """Returns the arguments of each scorer's `score`: the scorer, query, key, previous weights.

    Args:
        scorers: As in `prepare_heads`.
        query: Float tensor `(batch, heads, query, key_dim)`.
        prepared: The result of `prepare_heads`.
        value: Float tensor `(batch, key_value_heads, key, value_dim)`.
        previous_weights: Optional float tensor `(batch, heads, query, key)`.
    """
    if len(scorers) == 1:
        query, previous_weights = (
            None if one is None else _fold_heads_into_batch(group_heads(one, value.shape[1]))
            for one in (query, previous_weights)
        )
        prepared = keras.tree.map_structure(_fold_heads_into_batch, prepared)
        return [(scorers[0], query, prepared, previous_weights)]
    return [
        (
            scorer,
            query[:, head],
            prepared[head],
            None if previous_weights is None else previous_weights[:, head],
        )
        for head, scorer in enumerate(scorers)
    ]


def merge_scores(scores, query):
    """Returns the scores `(batch, heads, query, key)` from those of each scorer."""
    if len(scores) > 1:
        return ops.stack(scores, axis=1)
    return reshape(scores[0], (*get_shape(query)[:3], get_shape(scores[0])[-1]))


def compute_contexts(weights, value):
    """Returns the contexts `(batch, heads, query, value_dim)`.

    They are those of weights `(batch, heads, query, key)` and values
    `(batch, key_value_heads, key, value_dim)`.
    """
    batch, heads, queries = get_shape(weights)[:3]
    contexts = ops.matmul(group_heads(weights, value.shape[1]), value)
    return reshape(contexts, (batch, heads, queries, value.shape[-1]))


def group_heads(tensor, groups):
    """Returns `(batch, heads, query, size)` as `(batch, groups, heads // groups * query, size)`."""
    batch, heads, queries, size = get_shape(tensor)
    if heads == groups:
        return tensor
    return reshape(tensor, (batch, groups, heads // groups * queries, size))


def _fold_heads_into_batch(tensor):
    batch, heads, *sizes = get_shape(tensor)
    return reshape(tensor, (batch * heads, *sizes))


def check_shapes(owner: str, shapes: dict, widths: dict | None) -> None:
    """Raises unless query, key and value fit together and match the `widths` at build time."""
    for name, shape in shapes.items():
        axes = "(batch, query, dim) or (batch, dim)" if name == "query" else "(batch, key, dim)"
        validation.check_axes(owner, name, shape, axes)
    sources = {"value": shapes["value"], "key": shapes["key"]}
    validation.check_same_size(owner, 1, "Each key belongs to one value.", **sources)
    validation.check_same_size(owner, 0, query=shapes["query"], value=shapes["value"])
    if widths not in (None, {name: shape[-1] for name, shape in shapes.items()}):
        received = ", ".join(f"{name}.shape={tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"{owner} was built for the widths {widths}. Received: {received}")
