"""Attention of beams to a cache that is never copied: each entry is read where it was written.

When a search drops a hypothesis and continues another one twice, the keys and values of earlier
positions have to follow. Gathering them moves the whole cache at every step. Here they stay in
the row that wrote them, and each hypothesis keeps in whose row of its source that is:

    scores[q, w, t] = score(query_q, key_{w, t})      if beam q finds its position t in beam w
    context_q       = sum_{w, t} weights[q, w, t] value_{w, t}

So all beams of a source read the caches of all of them: a few more products, of matrices instead
of vectors, for no copy.
"""

from keras import ops

from keras_attention.beams import follow, sources
from keras_attention.mechanisms import heads
from keras_attention.shapes import reshape


def start_writers(rows, max_length):
    """Returns the writers of a cache in which every row reads itself, zeros `(rows, max_length)`.

    A writer is told by its distance: the beam that wrote a position minus the beam that reads it,
    among the beams of one source. So rows that are gathered together with their caches, as any
    search may do, keep theirs.
    """
    return ops.zeros((rows, max_length), dtype="int32")


def followed(writers, written, parents):
    """Returns the writers of the beams that grew from `parents`, while the caches stay in place.

    Args:
        writers: Int tensor `(rows, max_length)`, row-major by batch.
        written: Boolean tensor `(rows, max_length)`, what the parents have written.
        parents: Int tensor `(batch, beam)`, the beam of the same source each one grew from.
    """
    batch, beams = ops.shape(parents)
    distance = parents - ops.arange(beams, dtype="int32")[None, :]
    distance = reshape(distance, (batch * beams, 1))
    writers, written = follow((writers, written), parents)
    return ops.where(written, writers + distance, 0)


def attend_in_place(attention, query, cache, writers, memory_mask, position):
    """Attends with one query a row to what the beams of its source wrote.

    Args:
        attention: A built `MultiHeadAttention`.
        query: Float tensor `(rows, query_dim)`, row-major by batch.
        cache: What its `extend_cache` returned; `mask` is that of the hypotheses.
        writers: Int tensor `(rows, max_length)`, see `start_writers`.
        memory_mask: The mask of the memory, `(batch, source)`, which tells the sources.
        position: Int tensor `(rows,)`.

    Returns:
        Contexts `(rows, output_dim)`, as `attention.attend` returns of a cache that was gathered.
    """
    rows = ops.shape(writers)[0]
    batch, beams = sources(rows, memory_mask)
    if isinstance(beams, int) and beams == 1:
        return attention.attend(query, cache, position=position)[0]
    length = cache["mask"].shape[1]
    queries = _asked(attention, query, position, batch, beams)
    num_heads = attention.num_heads
    keys = heads.prepare_heads(attention._scorers, cache["projected"])
    scores = heads.head_scores(
        attention._scorers, queries, keys, attention._groups, num_keys=length, is_step=True
    )
    # (batch, writer, heads, beam, position) -> (batch, heads, beam, writer * position)
    scores = reshape(scores, (batch, beams, num_heads, beams, length))
    scores = ops.transpose(scores, (0, 2, 3, 1, 4))
    scores = reshape(scores, (batch, num_heads, beams, beams * length))
    mask = _found(writers, cache["mask"], batch, beams)
    weights = attention._weigh(scores, heads.HeadsReading(attention_mask=mask))
    weights = reshape(weights, (batch, num_heads, beams, beams, length))
    weights = ops.transpose(weights, (0, 3, 1, 2, 4))
    weights = reshape(weights, (rows, num_heads, beams, length))
    contexts = heads.head_contexts(weights, cache["value"])
    contexts = reshape(contexts, (batch, beams, num_heads, beams, contexts.shape[-1]))
    contexts = ops.transpose(ops.sum(contexts, axis=1), (0, 2, 1, 3))
    contexts = reshape(contexts, (rows, num_heads * contexts.shape[-1]))
    return heads.projected(attention.output_dense, contexts)


def _asked(attention, query, position, batch, beams):
    """Returns, for each row's cache, the queries of all beams: `(rows, heads, beam, key_dim)`."""
    queries = heads.projected(attention.query_dense, query[:, None, :])
    queries = heads.split_heads(queries, attention.num_heads)
    if attention.rotary is not None:
        queries = attention.rotary(queries, position)
    num_heads, dim = attention.num_heads, attention.key_dim
    queries = reshape(queries, (batch, 1, beams, num_heads, dim))
    queries = ops.transpose(queries, (0, 1, 3, 2, 4))
    queries = ops.broadcast_to(queries, (batch, beams, num_heads, beams, dim))
    return reshape(queries, (batch * beams, num_heads, beams, dim))


def _found(writers, written, batch, beams):
    """Returns which `(writer, position)` each beam reads, `(batch, beam, beam * max_length)`."""
    length = written.shape[1]
    every = ops.arange(beams, dtype="int32")
    writers = reshape(writers, (batch, beams, 1, length)) + every[None, :, None, None]
    written = reshape(written, (batch, beams, 1, length))
    found = ops.logical_and(writers == every[None, None, :, None], written)
    return reshape(found, (batch, beams, beams * length))
