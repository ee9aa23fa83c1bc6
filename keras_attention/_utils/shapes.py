"""Shape helpers: cheap reshaping and gathering inside loops, and reductions of empty tensors."""

import keras
from keras import ops


def get_shape(tensor):
    """Returns the shape as a tuple; sizes unknown while tracing are scalar int tensors.

    `keras.ops.shape` returns the same, but on TensorFlow it runs an operation even where all
    sizes are known: 5 of the 21 of an eager call of `BahdanauAttention`.

    Args:
        tensor: Any tensor of known rank.

    Example:

    >>> get_shape(ops.ones((6, 5)))
    (6, 5)
    """
    sizes = tuple(tensor.shape)
    return ops.shape(tensor) if None in sizes else sizes


def broadcast_mask(mask, tensor):
    """Returns a mask broadcast to the first axes of `tensor`, `(batch, length, ...)`; or None.

    A mask may be `(1, length)`, the same for the batch, or `(batch, 1)`, all or no positions.
    """
    known = None if mask is None else tuple(mask.shape)
    if known is None or (None not in known and known == tuple(tensor.shape[: len(known)])):
        return mask
    return ops.broadcast_to(mask, get_shape(tensor)[: len(known)])


def reshape(tensor, sizes):
    """Returns `tensor` in the shape `sizes`; sizes unknown while tracing may be int tensors.

    A tensor that has that shape is returned as it is. A single unknown size is left to be inferred:
    a graph then has one constant instead of the operations that read, slice and pack a shape. In a
    decoding loop those are a large part of all operations.

    Args:
        tensor: Any tensor.
        sizes: Ints and scalar int tensors, as `get_shape` returns them.

    Example:

    >>> tuple(reshape(ops.ones((6, 5)), (2, 3, 5)).shape)
    (2, 3, 5)
    """
    sizes = tuple(sizes)
    unknown = [place for place, size in enumerate(sizes) if not isinstance(size, int)]
    if not unknown and tuple(tensor.shape) == sizes:
        return tensor
    known = [size for size in sizes if isinstance(size, int)]
    # If a size is 0, an unknown one cannot be inferred.
    if len(unknown) == 1 and all(size > 0 for size in known):
        sizes = tuple(size if isinstance(size, int) else -1 for size in sizes)
    return ops.reshape(tensor, sizes)


def apply_to_rows(function, inputs):
    """Returns `function` of the vectors of `inputs`, of any rank, as the rows of one matrix.

    A dense layer then is one product of two matrices.

    Args:
        function: Callable `(rows, dim) -> (rows, units)`.
        inputs: Tensor `(..., dim)`.

    Returns:
        The results, `(..., units)`.

    Example:

    >>> tuple(apply_to_rows(lambda rows: rows[:, :2], ops.ones((7, 3, 5))).shape)
    (7, 3, 2)
    """
    outputs = function(reshape(inputs, (-1, inputs.shape[-1])))
    return reshape(outputs, (*get_shape(inputs)[:-1], outputs.shape[-1]))


def reduce_rows(reduce, tensor, **options):
    """Returns `reduce(tensor, **options)`, also for an empty tensor, which Keras rejects eagerly.

    For an empty tensor a sum has the correct shape and is used instead.

    Args:
        reduce: `ops.max` or `ops.min`.
        tensor: Any tensor.
        **options: Keyword arguments of `reduce`.

    Example:

    >>> tuple(reduce_rows(ops.max, ops.zeros((0, 5)), axis=1).shape)
    (0,)
    """
    return (ops.sum if 0 in tensor.shape else reduce)(tensor, **options)


def take_rows(table, indices):
    """Returns `table[indices]` for indices of at least 0 that lie inside.

    `keras.ops.take` allows negative ones, which costs three operations on TensorFlow.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, indices)
    return ops.take(table, indices, axis=0)
