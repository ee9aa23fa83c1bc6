"""The Neural Turing Machine: addressing, heads, cell, layer."""

from keras_attention.memory.access import read, write
from keras_attention.memory.addressing import (
    circular_shift,
    content_weights,
    interpolate,
    scalar_shift,
    sharpen,
)
from keras_attention.memory.cell import NTMCell
from keras_attention.memory.ntm import NTM
from keras_attention.memory.shifts import ScalarShift, SoftmaxShift

__all__ = [
    "NTM",
    "NTMCell",
    "ScalarShift",
    "SoftmaxShift",
    "circular_shift",
    "content_weights",
    "interpolate",
    "read",
    "scalar_shift",
    "sharpen",
    "write",
]
