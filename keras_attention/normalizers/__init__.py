"""Normalizers: scores and a mask in, weights out."""

from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.names import get
from keras_attention.normalizers.softmax import SoftmaxNormalizer

__all__ = ["Normalizer", "SoftmaxNormalizer", "get"]
