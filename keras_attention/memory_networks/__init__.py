"""End-to-end memory networks, Sukhbaatar et al. 2015."""

from keras_attention.memory_networks.linear_start import LinearStart
from keras_attention.memory_networks.memory_hops import (
    MemoryHops,
    half_relu,
)

__all__ = [
    "LinearStart",
    "MemoryHops",
    "half_relu",
]
