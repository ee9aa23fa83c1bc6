"""Attention mechanisms of the sequence-to-sequence literature as Keras 3 layers."""

from keras_attention.dropout import CounterDropout
from keras_attention.mechanisms import (
    Attention,
    AttentionMechanism,
    BahdanauAttention,
    LuongAttention,
)
from keras_attention.normalizers import Normalizer, SoftmaxNormalizer
from keras_attention.recurrent import (
    AttentionRNN,
    BahdanauDecoder,
    BahdanauGRU,
    BahdanauGRUCell,
    LuongDecoder,
    RecurrentDecoder,
    SkipFirstUpdate,
)
from keras_attention.scorers import (
    AdditiveScorer,
    BilinearScorer,
    ConcatScorer,
    CosineScorer,
    DotScorer,
    GeneralScorer,
    LocationScorer,
    LowRankBilinearScorer,
    MLPScorer,
    ScaledDotScorer,
    Scorer,
    UniformScorer,
)

__all__ = [
    "AdditiveScorer",
    "Attention",
    "AttentionMechanism",
    "AttentionRNN",
    "BahdanauAttention",
    "BahdanauDecoder",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "BilinearScorer",
    "ConcatScorer",
    "CosineScorer",
    "CounterDropout",
    "DotScorer",
    "GeneralScorer",
    "LocationScorer",
    "LowRankBilinearScorer",
    "LuongAttention",
    "LuongDecoder",
    "MLPScorer",
    "Normalizer",
    "RecurrentDecoder",
    "ScaledDotScorer",
    "Scorer",
    "SkipFirstUpdate",
    "SoftmaxNormalizer",
    "UniformScorer",
]
