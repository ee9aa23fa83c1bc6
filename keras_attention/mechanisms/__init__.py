"""Mechanisms: named compositions of a scorer, a normalizer and a reader."""

from keras_attention.mechanisms.attention import Attention
from keras_attention.mechanisms.bahdanau import BahdanauAttention
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.mechanisms.luong import LuongAttention

__all__ = ["Attention", "AttentionMechanism", "BahdanauAttention", "LuongAttention"]
