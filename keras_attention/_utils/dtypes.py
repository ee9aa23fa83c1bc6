"""Wider dtypes for computations that half precision would spoil: softmax, long sums, positions."""

import keras
from keras import ops


def wide_dtype(dtype) -> str:
    """Returns "float64" for float64 and "float32" for every other dtype."""
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"


def at_least_float32(tensor):
    """Returns `tensor` in float32, or unchanged if it is float64."""
    return ops.cast(tensor, wide_dtype(tensor.dtype))


def wide_compute_dtype(dtype) -> str:
    """Returns the wide dtype of what a loss or a metric takes as `dtype`; None is `floatx`."""
    return wide_dtype(keras.dtype_policies.get(dtype or keras.config.floatx()).compute_dtype)
