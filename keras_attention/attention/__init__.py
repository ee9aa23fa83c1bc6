"""Attention layers: a scorer, a normalizer and a weighted sum, under the names of their papers."""

from keras_attention.attention.alibi import alibi_bias
from keras_attention.attention.attention import Attention
from keras_attention.attention.bahdanau import BahdanauAttention
from keras_attention.attention.base import AttentionMechanism
from keras_attention.attention.forward_attention import ForwardAttention
from keras_attention.attention.gmm import GMMAttention
from keras_attention.attention.local import LocalAttention
from keras_attention.attention.luong import LuongAttention
from keras_attention.attention.monotonic_chunkwise import MonotonicChunkwiseAttention
from keras_attention.attention.multi_head import MultiHeadAttention
from keras_attention.attention.multi_source import MultiSourceAttention
from keras_attention.attention.multi_step import MultiStepAttention
from keras_attention.attention.relative_position_bias import RelativePositionBias
from keras_attention.attention.relative_position_embedding import RelativePositionEmbedding
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.attention.self_attention import SelfAttention
from keras_attention.attention.show_attend_tell_hard import HardAttention
from keras_attention.attention.show_attend_tell_soft import SoftAttention
from keras_attention.attention.text_guided import TextGuidedAttention

__all__ = [
    "Attention",
    "AttentionMechanism",
    "BahdanauAttention",
    "ForwardAttention",
    "GMMAttention",
    "HardAttention",
    "LocalAttention",
    "LuongAttention",
    "MonotonicChunkwiseAttention",
    "MultiHeadAttention",
    "MultiSourceAttention",
    "MultiStepAttention",
    "RelativePositionBias",
    "RelativePositionEmbedding",
    "RotaryEmbedding",
    "SelfAttention",
    "SoftAttention",
    "TextGuidedAttention",
    "alibi_bias",
]
