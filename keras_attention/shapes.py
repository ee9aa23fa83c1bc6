"""Shapes: reshaping with little to compute at each step of a loop, and tensors without rows."""

from keras import ops


def spelled_out(mask, tensor):
    """Returns a mask with the rows and positions of `tensor`, `(batch, length, ...)`; or None.

    A mask `(1, length)` holds for every row, and every row of one `(batch, 1)` is all or nothing.
    """
    known = None if mask is None else tuple(mask.shape)
    if known is None or (None not in known and known == tuple(tensor.shape[:2])):
        return mask
    return ops.broadcast_to(mask, ops.shape(tensor)[:2])


def reshape(tensor, sizes):
    """Returns `tensor` in the shape `sizes`, of which those unknown while tracing may be tensors.

    A single unknown size is left to be inferred. A graph then holds one constant instead of the
    reading of a shape, its slicing and its packing, which in a decoding loop are a large part of
    all that runs.

    Args:
        tensor: Any tensor.
        sizes: Ints and scalar int tensors, as `keras.ops.shape` gives them.

    Example:

    >>> tuple(reshape(ops.ones((6, 5)), (2, 3, 5)).shape)
    (2, 3, 5)
    """
    sizes = tuple(sizes)
    unknown = [place for place, size in enumerate(sizes) if not isinstance(size, int)]
    known = [size for size in sizes if isinstance(size, int)]
    # Next to a size of 0 nothing can be inferred.
    if len(unknown) == 1 and all(size > 0 for size in known):
        sizes = tuple(size if isinstance(size, int) else -1 for size in sizes)
    return ops.reshape(tensor, sizes)


def reduce_rows(reduce, tensor, **options):
    """Returns `reduce(tensor, **options)`, also of no rows, which Keras refuses eagerly.

    Of no rows a sum is as good, and has the same shape.

    Args:
        reduce: `ops.max` or `ops.min`.
        tensor: Any tensor.
        **options: Its options.

    Example:

    >>> tuple(reduce_rows(ops.max, ops.zeros((0, 5)), axis=1).shape)
    (0,)
    """
    return (ops.sum if 0 in tensor.shape else reduce)(tensor, **options)
