"""What several rows, the beams of a search, read of the one source they share."""

import keras
from keras import ops

from keras_attention.shapes import reshape


def by_source(tensor, mask, rows=None):
    """Returns `(rows, ...)` as `(batch, rows // batch, ...)`, the rows of a source together.

    Args:
        tensor: Tensor whose rows are row-major by batch.
        mask: The mask of the memory, `(batch, source)`.
        rows: The number of rows; by default it is read off the tensor.

    Example:

    >>> tuple(by_source(ops.ones((6, 5)), mask=ops.ones((2, 7))).shape)
    (2, 3, 5)
    """
    rows = ops.shape(tensor)[0] if rows is None else rows
    batch, width = sources(rows, mask)
    return reshape(tensor, (batch, width, *ops.shape(tensor)[1:]))


def sources(rows, mask):
    """Returns the number of sources and how many rows each has, from the mask of the memory."""
    batch = ops.shape(mask)[0]
    return batch, rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))


def by_row(tensor, rows):
    """Returns `(batch, rows // batch, ...)` as `(rows, ...)`: undoes `by_source`.

    Example:

    >>> tuple(by_row(ops.ones((2, 3, 5)), rows=6).shape)
    (6, 5)
    """
    return reshape(tensor, (rows, *ops.shape(tensor)[2:]))


def for_rows(tensor, rows):
    """Returns `(batch, dim)` as `(rows, dim)`: each row gets what belongs to its source.

    Example:

    >>> [float(row[0]) for row in for_rows(ops.array([[1.0], [2.0]]), rows=4)]
    [1.0, 1.0, 2.0, 2.0]
    """
    batch, dim = ops.shape(tensor)
    width = rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))
    spread = ops.broadcast_to(tensor[:, None], (batch, width, dim))
    return reshape(spread, (rows, dim))


def follow(tree, parents, width=None):
    """Returns the tensors of `tree`, `(rows, ...)`, with the row each beam grew from.

    Args:
        tree: A nest of tensors whose rows are row-major by batch.
        parents: Int tensor `(batch, beam)`, a beam of the same source each.
        width: How many rows a source has in `tree`; as many as it has parents if None.

    Example:

    >>> follow(ops.array([10, 11, 20, 21]), parents=ops.array([[1, 1], [0, 1]])).numpy().tolist()
    [11, 11, 20, 21]
    """
    batch, beams = ops.shape(parents)
    width = beams if width is None else width
    if beams == width == 1:
        return tree
    first = ops.arange(batch, dtype="int32")[:, None] * width
    rows = reshape(first + parents, (batch * beams,))
    return keras.tree.map_structure(lambda leaf: ops.take(leaf, rows, axis=0), tree)


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
    rows, mask = ops.shape(query)[0], memory["mask"]
    context, weights = attention.attend(
        by_source(query, mask),
        memory,
        None if previous_weights is None else by_source(previous_weights, mask),
        by_source(position, mask),
    )
    return by_row(context, rows), by_row(weights, rows)
