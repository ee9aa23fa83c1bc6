"""Mechanisms: named compositions of a scorer, a normalizer and a reader."""

from keras_attention.mechanisms.alibi import alibi_bias
from keras_attention.mechanisms.attention import Attention
from keras_attention.mechanisms.bahdanau import BahdanauAttention
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.mechanisms.hard import HardAttention
from keras_attention.mechanisms.local import LocalAttention
from keras_attention.mechanisms.luong import LuongAttention
from keras_attention.mechanisms.multi_head import MultiHeadAttention
from keras_attention.mechanisms.multi_step import MultiStepAttention
from keras_attention.mechanisms.rotary import RotaryPositions
from keras_attention.mechanisms.self_attention import SelfAttention
from keras_attention.mechanisms.soft import SoftAttention
from keras_attention.mechanisms.text_guided import TextGuidedAttention

__all__ = [
    "Attention",
    "AttentionMechanism",
    "BahdanauAttention",
    "HardAttention",
    "LocalAttention",
    "LuongAttention",
    "MultiHeadAttention",
    "MultiStepAttention",
    "RotaryPositions",
    "SelfAttention",
    "SoftAttention",
    "TextGuidedAttention",
    "alibi_bias",
]
