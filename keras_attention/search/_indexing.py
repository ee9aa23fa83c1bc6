"""Writes, gathers and top-k that behave alike on every backend, for empty tensors too."""

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, take_rows
from keras_attention.kernels import execution_mode, xla_barriers


def write_at(tensor, time, value):
    """Returns `tensor` with `value` at index `time` of its first axis."""
    if 0 in value.shape:
        return tensor
    if keras.backend.backend() == "jax":  # whose scatter checks the bounds first
        start = (time, *[0] * len(value.shape))
        return ops.slice_update(tensor, start, ops.expand_dims(value, 0))
    places, values = ops.reshape(time, (1, 1)), ops.expand_dims(value, 0)
    if None in value.shape:
        # TensorFlow's scatter fails for a tensor without elements (empty batch or source).
        present = ops.minimum(ops.cast(ops.size(value), "int32"), 1)
        places, values = places[:present], values[:present]
    return ops.scatter_update(tensor, places, values)


def gather_per_row(values, indices):
    """Returns `values[b, indices[b]]`: `(batch, n)` gathered at `(batch, m)`."""
    batch, width = get_shape(values)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * width
    places = rows + ops.cast(indices, "int32")
    if 0 in places.shape:  # Keras' `take` on JAX loses an axis for an empty batch
        return ops.zeros(places.shape, values.dtype)
    return take_rows(ops.reshape(values, (batch * width,)), places)


def scatter_per_row(tensor, indices, values):
    """Returns `tensor` with `values` `(batch * m,)` at `indices` `(batch, m)` of its rows.

    Where an index occurs twice in a row, both values must be the same.
    """
    batch, count = get_shape(tensor)[0], indices.shape[1]
    rows = ops.repeat(ops.arange(batch, dtype="int32"), count)
    places = ops.stack([rows, ops.reshape(indices, (batch * count,))], axis=1)
    return ops.scatter_update(tensor, places, values)


def saves_launches():
    """Returns whether to launch fewer kernels by forms that only JAX has: on a GPU."""
    return keras.backend.backend() == "jax" and execution_mode.has_gpu()


def top_pairs(values, order, count):
    """Returns the `count` largest values of each row, best first, and their numbers in `order`.

    Equal values are in the order of `order`, int32 of the same shape. Where `saves_launches()`.
    """
    import jax

    negated = -ops.where(values == 0.0, 0.0, values)
    negated, order = jax.lax.sort((negated, order), num_keys=2, is_stable=False)
    return -negated[:, :count], order[:, :count]


def gather_together(tensors, indices):
    """Returns `gather_per_row` of each of some tensors of 32 bits and one shape."""
    if not saves_launches():
        return [gather_per_row(tensor, indices) for tensor in tensors]
    import jax

    packed = ops.stack([jax.lax.bitcast_convert_type(one, "int32") for one in tensors], axis=2)
    (packed,) = xla_barriers.separate([packed])
    batch, width, count = packed.shape
    places = ops.arange(batch, dtype="int32")[:, None] * width + indices
    taken = take_rows(ops.reshape(packed, (batch * width, count)), places)
    return [
        jax.lax.bitcast_convert_type(taken[:, :, index], one.dtype)
        for index, one in enumerate(tensors)
    ]


def top_k(values, count):
    """Returns the `count` largest values of each row, best first, and their indices, int32.

    Equal values are in the order of their indices. Zeros of both signs are equal, though XLA sorts
    -0.0 below 0.0. Adding 0.0 would not help, because XLA simplifies it away.

    Example:

    >>> ops.convert_to_numpy(top_k(ops.array([[-1.0, -0.0, 0.0]]), 2)[1]).tolist()
    [[1, 2]]
    """
    if execution_mode.get_execution_mode(values) != "graph" or execution_mode.has_gpu():
        values = ops.where(values == 0.0, 0.0, values)
    if keras.backend.backend() == "torch":  # its top-k selects any of equal values
        places = ops.argsort(-values, axis=-1)[:, :count]
        return ops.take_along_axis(values, places, axis=1), ops.cast(places, "int32")
    values, places = ops.top_k(values, count)
    return values, ops.cast(places, "int32")
