"""Normalizers: turn scores and a mask into attention weights."""

from keras_attention.normalizers._names import get
from keras_attention.normalizers.argmax import ArgmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.entmax import EntmaxNormalizer
from keras_attention.normalizers.forward import ForwardNormalizer
from keras_attention.normalizers.gumbel_softmax import GumbelSoftmaxNormalizer
from keras_attention.normalizers.monotonic import MonotonicNormalizer
from keras_attention.normalizers.sample import SampleNormalizer
from keras_attention.normalizers.softmax import SoftmaxNormalizer
from keras_attention.normalizers.sparsemax import SparsemaxNormalizer

__all__ = [
    "ArgmaxNormalizer",
    "EntmaxNormalizer",
    "ForwardNormalizer",
    "GumbelSoftmaxNormalizer",
    "MonotonicNormalizer",
    "Normalizer",
    "SampleNormalizer",
    "SoftmaxNormalizer",
    "SparsemaxNormalizer",
    "get",
]
