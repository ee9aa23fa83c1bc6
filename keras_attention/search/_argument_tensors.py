"""Arguments that are tensors of ints: their checks, and their values where these can be read."""

import keras
import numpy as np
from keras import ops

from keras_attention import validation

INT32 = np.iinfo("int32")


def to_int32_tensor(owner, name, value, rank, meaning):
    """Returns `value` as an int32 tensor, or raises unless it is ints of that rank.

    Values outside of int32 are clipped, so that they stay out of range.
    """
    tensor = to_int_tensor(owner, name, _clip_to_int32(value), rank, meaning)
    if keras.backend.standardize_dtype(tensor.dtype) in ("int64", "uint32", "uint64"):
        tensor = ops.clip(ops.cast(tensor, "int64"), INT32.min, INT32.max)
    return ops.cast(tensor, "int32")


def _clip_to_int32(value):
    """Returns an array or a list of ints clipped to int32; other values unchanged.

    JAX would wrap 64-bit ints on conversion to a tensor, after which they cannot be checked.
    """
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, NotImplementedError):  # ragged lists, or tensors
        return value
    if array.dtype.kind not in "iu":
        return value
    return np.clip(array, INT32.min, INT32.max).astype("int32")


def to_int_tensor(owner, name, value, rank, meaning):
    """Returns `value` as a tensor of its dtype, or raises unless it is ints of that rank."""
    try:
        tensor = ops.convert_to_tensor(value)
        integral = "int" in keras.backend.standardize_dtype(tensor.dtype)
    except (ValueError, TypeError):
        integral = False
    if not integral:
        raise ValueError(f"{owner} expects `{name}` to be {meaning}. Received: {name}={value!r}")
    validation.check_rank(owner, name, tensor, (rank,))
    return tensor


def check_rows(owner, name, tensor, batch):
    """Raises if the static batch size of `tensor` differs from that of the state."""
    if isinstance(batch, int) and tensor.shape[0] not in (None, batch):
        raise ValueError(
            f"{owner} expects `{name}` with one entry for each of the {batch} batch elements. "
            f"Received: {name}.shape={tuple(tensor.shape)}"
        )


def get_static_value(tensor):
    """Returns the tensor's value as a NumPy array, or None while tracing."""
    if isinstance(tensor, np.ndarray):
        return tensor
    if keras.backend.backend() == "tensorflow" and not hasattr(tensor, "numpy"):
        return None
    try:
        return ops.convert_to_numpy(tensor)
    except TypeError:  # a tracer of JAX
        return None
