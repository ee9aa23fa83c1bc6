"""Passes noise that was sampled before a loop through it, beside the loop's sequence.

A loop must not sample: noise is part of the sequence, one slice per step.
"""

import functools
import operator

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reshape


def append_noise(sequence, noise):
    """Returns one tensor `(batch, time, dim + ...)` of the sequence and all noise.

    Args:
        sequence: Float tensor `(batch, time, dim)`.
        noise: Dict of float tensors `(batch, time, ...)`, each with one more axis, or two.
    """
    if not noise:
        return sequence
    tensors = [sequence, *map(_join_last_axes, noise.values())]
    dtype = keras.backend.result_type(*(tensor.dtype for tensor in tensors))
    return ops.concatenate([ops.cast(tensor, dtype) for tensor in tensors], axis=-1)


def split_noise(step_inputs, width, dtype, noise):
    """Returns one step's part of the sequence, in its `dtype`, and of the noise.

    Args:
        step_inputs: Float tensor `(batch, dim + ...)`: one step of the result of `append_noise`.
        width: Int, the size dim of the sequence.
        dtype: The dtype of the sequence.
        noise: The dict that was passed to `append_noise`; only its shapes are used.
    """
    parts, first = {}, width
    for name, tensor in noise.items():
        batch, _, *sizes = get_shape(tensor)
        last = first + functools.reduce(operator.mul, sizes)
        part = ops.cast(step_inputs[:, first:last], tensor.dtype)
        parts[name] = reshape(part, (batch, *sizes)) if len(sizes) == 2 else part
        first = last
    return ops.cast(step_inputs[:, :width], dtype), parts


def _join_last_axes(tensor):
    """Returns `(batch, time, heads, key)` as `(batch, time, heads * key)`."""
    if len(tensor.shape) == 3:
        return tensor
    batch, time, heads, num_keys = get_shape(tensor)
    return reshape(tensor, (batch, time, heads * num_keys))
