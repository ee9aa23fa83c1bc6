"""Layers for several models: one memory of several sources, dropout, a weight-normalized dense."""

from keras_attention.core.concatenate_sources import ConcatenateSources
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.core.weight_normalized_dense import WeightNormalizedDense

__all__ = [
    "ConcatenateSources",
    "CounterDropout",
    "WeightNormalizedDense",
]
