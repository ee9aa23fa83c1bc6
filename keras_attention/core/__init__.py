"""Layers for several models: dropout, and a dense layer with weight normalization."""

from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.core.weight_normalized_dense import WeightNormalizedDense

__all__ = [
    "CounterDropout",
    "WeightNormalizedDense",
]
