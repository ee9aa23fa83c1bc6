"""Layers for several models: several sources, learned queries, dropout, a normalized dense."""

from keras_attention.core.concatenate_sources import ConcatenateSources
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.core.learned_queries import LearnedQueries
from keras_attention.core.split_sources import SplitSources
from keras_attention.core.weight_normalized_dense import WeightNormalizedDense

__all__ = [
    "ConcatenateSources",
    "CounterDropout",
    "LearnedQueries",
    "SplitSources",
    "WeightNormalizedDense",
]
