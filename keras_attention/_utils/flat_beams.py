"""Reshaping between flat beams `(batch * beams, ...)` and `(batch, beams, ...)`.

Searches keep hypotheses flat, `batch` major; `rows` is `batch * beams`. Attention unflattens them,
so that the beams of one source share its keys and values instead of copying them.
"""

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reshape


def unflatten_beams(tensor, mask, rows=None):
    """Returns `(rows, ...)` as `(batch, rows // batch, ...)`, with the beams of a source together.

    Args:
        tensor: Tensor whose first axis has flat beams, batch major.
        mask: The mask of the memory, `(batch, source)`.
        rows: The number of flat beams; by default the first size of the tensor.

    Example:

    >>> tuple(unflatten_beams(ops.ones((6, 5)), mask=ops.ones((2, 7))).shape)
    (2, 3, 5)
    """
    rows = get_shape(tensor)[0] if rows is None else rows
    batch, width = infer_batch_and_beams(rows, mask)
    return reshape(tensor, (batch, width, *get_shape(tensor)[1:]))


def infer_batch_and_beams(rows, mask):
    """Returns the number of sources and of beams per source, from the mask of the memory."""
    batch = get_shape(mask)[0]
    return batch, rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))


def flatten_beams(tensor, rows):
    """Returns `(batch, rows // batch, ...)` as `(rows, ...)`: the inverse of `unflatten_beams`.

    Example:

    >>> tuple(flatten_beams(ops.ones((2, 3, 5)), rows=6).shape)
    (6, 5)
    """
    return reshape(tensor, (rows, *get_shape(tensor)[2:]))


def repeat_for_beams(tensor, rows):
    """Returns `(batch, dim)` repeated for each beam, `(rows, dim)`.

    Example:

    >>> [float(row[0]) for row in repeat_for_beams(ops.array([[1.0], [2.0]]), rows=4)]
    [1.0, 1.0, 2.0, 2.0]
    """
    batch, dim = get_shape(tensor)
    width = rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))
    spread = ops.broadcast_to(tensor[:, None], (batch, width, dim))
    return reshape(spread, (rows, dim))


def gather_beams(tree, parents, width=None):
    """Returns the tensors of `tree`, `(rows, ...)`, reordered by each beam's parent.

    Args:
        tree: A nest of tensors of flat beams, batch major.
        parents: Int tensor `(batch, beam)`, each the index of a beam of the same source.
        width: The number of beams per source in `tree`; None means as many as parents.

    Example:

    >>> gathered = gather_beams(ops.array([10, 11, 20, 21]), ops.array([[1, 1], [0, 1]]))
    >>> gathered.numpy().tolist()
    [11, 11, 20, 21]
    """
    batch, beams = get_shape(parents)
    width = beams if width is None else width
    if beams == width == 1:
        return tree
    first = ops.arange(batch, dtype="int32")[:, None] * width
    rows = reshape(first + parents, (batch * beams,))
    return keras.tree.map_structure(lambda leaf: ops.take(leaf, rows, axis=0), tree)
