"""Readers: documents, stories and whole sequences in, vectors or probabilities out."""

from keras_attention.readers.hierarchical import HierarchicalAttention
from keras_attention.readers.learned_queries import LearnedQueries
from keras_attention.readers.linear_start import LinearStart
from keras_attention.readers.memory_hops import MemoryHops, half_relu
from keras_attention.readers.mentions import SumOverMentions, log_of_probability
from keras_attention.readers.multi_query import MultiQueryPooling
from keras_attention.readers.over_attention import AttentionOverAttention
from keras_attention.readers.pooling import AttentionPooling

__all__ = [
    "AttentionOverAttention",
    "AttentionPooling",
    "HierarchicalAttention",
    "LearnedQueries",
    "LinearStart",
    "MemoryHops",
    "MultiQueryPooling",
    "SumOverMentions",
    "half_relu",
    "log_of_probability",
]
