"""Attention of beams to a cache that is never copied: entries stay where they were written.

When a search drops one hypothesis and continues another twice, the keys and values of earlier
positions have to follow. Gathering them would copy the whole cache at every step. Here they stay
in the beam that wrote them, and each hypothesis stores which beam that is (its ancestry):

    scores[q, w, t] = score(query_q, key_{w, t})      if beam w wrote position t of beam q
    context_q       = sum_{w, t} weights[q, w, t] value_{w, t}

All beams of a source attend to the caches of all of them. This needs more products, but they are
products of matrices instead of vectors, and nothing is copied.
"""

from keras import ops

from keras_attention._utils.flat_beams import gather_beams, infer_batch_and_beams
from keras_attention._utils.shapes import apply_to_rows, get_shape, reshape
from keras_attention.attention import _heads
from keras_attention.attention._request import AttentionRequest


def start_ancestry(rows, max_length):
    """Returns the ancestry in which every beam wrote its own cache, zeros `(rows, max_length)`.

    An entry is a distance: the index of the beam that wrote a position minus the index of the
    beam that attends to it, among the beams of one source. Distances stay valid if a search
    gathers beams together with their caches.
    """
    return ops.zeros((rows, max_length), dtype="int32")


def reorder_ancestry(ancestry, is_written, parents):
    """Returns the ancestry of the beams that grew from `parents`; the caches stay in place.

    Args:
        ancestry: Int tensor `(rows, max_length)`, flat beams, batch major.
        is_written: Boolean tensor `(rows, max_length)`, the positions the parents have written.
        parents: Int tensor `(batch, beam)`, the parent of each beam among the same source's beams.
    """
    batch, beams = get_shape(parents)
    distance = parents - ops.arange(beams, dtype="int32")[None, :]
    distance = reshape(distance, (batch * beams, 1))
    ancestry, is_written = gather_beams((ancestry, is_written), parents)
    return ops.where(is_written, ancestry + distance, 0)


def attend_with_ancestry(attention, query, cache, ancestry, memory_mask, position):
    """Attends with one query per beam to the positions that the beams of its source wrote.

    Args:
        attention: A built `MultiHeadAttention`.
        query: Float tensor `(rows, query_dim)`, flat beams, batch major.
        cache: The result of its `extend_cache`; `mask` is that of the hypotheses.
        ancestry: Int tensor `(rows, max_length)`, see `start_ancestry`.
        memory_mask: The mask of the memory, `(batch, source)`; only its batch size is used.
        position: Int tensor `(rows,)`.

    Returns:
        Contexts `(rows, output_dim)`, the same as `attention.attend` returns for gathered caches.
    """
    rows, length = get_shape(ancestry)
    batch, beams = infer_batch_and_beams(rows, memory_mask)
    num_heads, value = attention.num_heads, cache["value"]
    queries = attention.project_query(query[:, None, :], position)
    queries = _broadcast_queries(queries, batch, beams)
    positions = None
    if attention.uses_distances:  # of the queries of all beams, for each beam's cache
        positions = reshape(position, (batch, 1, beams))
        positions = ops.broadcast_to(positions, (batch, beams, beams))
        positions = reshape(positions, (rows, beams))
    keys = _heads.prepare_heads(attention.scorers, cache["projected_key"])
    scores, parts = [], _heads.make_scorer_arguments(attention.scorers, queries, keys, value)
    for scorer, query_part, key_part, _ in parts:
        scores.append(scorer.score_step(query_part, key_part))
        scorer.check_scores(scores[-1], query_part, ancestry.shape[1])
    scores = _heads.merge_scores(scores, queries)
    scores = attention.add_relative_keys(scores, queries, positions)
    # (batch, writer, heads, beam, position) -> (batch, heads, beam, writer * position)
    scores = reshape(scores, (batch, beams, num_heads, beams, length))
    scores = ops.transpose(scores, (0, 2, 3, 1, 4))
    scores = reshape(scores, (batch, num_heads, beams, beams * length))
    mask = _ancestry_mask(ancestry, cache["mask"], batch, beams, length)
    weights = attention.compute_weights(scores, AttentionRequest(attention_mask=mask))
    weights = reshape(weights, (batch, num_heads, beams, beams, length))
    weights = ops.transpose(weights, (0, 3, 1, 2, 4))
    weights = reshape(weights, (rows, num_heads, beams, length))
    contexts = _heads.compute_contexts(weights, value)
    contexts = attention.add_relative_values(contexts, weights, positions)
    contexts = reshape(contexts, (batch, beams, num_heads, beams, contexts.shape[-1]))
    contexts = ops.transpose(ops.sum(contexts, axis=1), (0, 2, 1, 3))
    contexts = reshape(contexts, (rows, num_heads * contexts.shape[-1]))
    return apply_to_rows(attention.output_dense, contexts)


def _broadcast_queries(queries, batch, beams):
    """Returns, for each beam's cache, the queries of all beams: `(rows, heads, beam, key_dim)`."""
    _, num_heads, _, dim = queries.shape
    queries = reshape(queries, (batch, 1, beams, num_heads, dim))
    queries = ops.transpose(queries, (0, 1, 3, 2, 4))
    queries = ops.broadcast_to(queries, (batch, beams, num_heads, beams, dim))
    return reshape(queries, (batch * beams, num_heads, beams, dim))


def _ancestry_mask(ancestry, is_written, batch, beams, length):
    """Returns which `(writer, position)` each beam uses, `(batch, beam, beam * max_length)`."""
    every = ops.arange(beams, dtype="int32")
    ancestry = reshape(ancestry, (batch, beams, 1, length)) + every[None, :, None, None]
    is_written = reshape(is_written, (batch, beams, 1, length))
    found = ops.logical_and(ancestry == every[None, None, :, None], is_written)
    return reshape(found, (batch, beams, beams * length))
