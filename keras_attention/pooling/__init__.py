"""Pooling: summarizes sequences or documents as one vector or one distribution."""

from keras_attention.pooling.attention_over_attention import AttentionOverAttention
from keras_attention.pooling.attention_pooling import AttentionPooling
from keras_attention.pooling.attention_sum import (
    AttentionSum,
    safe_log,
)
from keras_attention.pooling.hierarchical_attention import HierarchicalAttention
from keras_attention.pooling.multi_query_pooling import MultiQueryPooling

__all__ = [
    "AttentionOverAttention",
    "AttentionPooling",
    "AttentionSum",
    "HierarchicalAttention",
    "MultiQueryPooling",
    "safe_log",
]
