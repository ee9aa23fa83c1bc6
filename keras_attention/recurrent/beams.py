"""Attention of several rows, the beams of a search, to the one source they share."""

from keras import ops


def attend_by_source(attention, query, memory, previous_weights, position):
    """Attends with one query a row, where `rows // batch` rows share a source.

    The rows of a source become its query axis, so that nothing of the memory is copied.

    Args:
        attention: A mechanism.
        query: Float tensor `(rows, query_dim)`, row-major by batch.
        memory: What `attention.prepare` returned, with leading dimension batch.
        previous_weights: Float tensor `(rows, source)`, or None.
        position: Int tensor `(rows,)`.

    Returns:
        Contexts `(rows, value_dim)` and weights `(rows, source)`.
    """
    rows = ops.shape(query)[0]
    batch, source = ops.shape(memory["mask"])[:2]
    width = rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))

    def by_source(tensor):
        sizes = [ops.shape(tensor)[axis] for axis in range(1, len(tensor.shape))]
        return ops.reshape(tensor, (batch, width, *sizes))

    context, weights = attention.attend(
        by_source(query),
        memory,
        None if previous_weights is None else by_source(previous_weights),
        by_source(position),
    )
    return (
        ops.reshape(context, (rows, context.shape[-1])),
        ops.reshape(weights, (rows, source)),
    )
