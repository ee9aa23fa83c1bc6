"""The Neural Turing Machine: addressing, heads, cell, layer."""

from keras_attention.ntm.addressing import (
    circular_shift,
    content_weights,
    interpolate,
    scalar_shift,
    sharpen,
)
from keras_attention.ntm.cell import NTMCell
from keras_attention.ntm.memory_access import (
    read_memory,
    write_memory,
)
from keras_attention.ntm.ntm import NTM
from keras_attention.ntm.shift_types import (
    ScalarShift,
    SoftmaxShift,
)

__all__ = [
    "NTM",
    "NTMCell",
    "ScalarShift",
    "SoftmaxShift",
    "circular_shift",
    "content_weights",
    "interpolate",
    "read_memory",
    "scalar_shift",
    "sharpen",
    "write_memory",
]
