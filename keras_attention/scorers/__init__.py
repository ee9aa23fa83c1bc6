"""Scorers: one compatibility score for each query-key pair, before any mask is applied."""

from keras_attention.scorers._names import get
from keras_attention.scorers.additive import AdditiveScorer
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.bilinear import BilinearScorer, LowRankBilinearScorer
from keras_attention.scorers.concat import ConcatScorer
from keras_attention.scorers.cosine import CosineScorer
from keras_attention.scorers.coverage import CoverageScorer
from keras_attention.scorers.dot import DotScorer, ScaledDotScorer
from keras_attention.scorers.dynamic_convolution import DynamicConvolutionScorer
from keras_attention.scorers.general import GeneralScorer
from keras_attention.scorers.location import LocationScorer
from keras_attention.scorers.location_sensitive import LocationSensitiveScorer
from keras_attention.scorers.mlp import MLPScorer
from keras_attention.scorers.uniform import UniformScorer

__all__ = [
    "AdditiveScorer",
    "BilinearScorer",
    "ConcatScorer",
    "CosineScorer",
    "CoverageScorer",
    "DotScorer",
    "DynamicConvolutionScorer",
    "GeneralScorer",
    "LocationScorer",
    "LocationSensitiveScorer",
    "LowRankBilinearScorer",
    "MLPScorer",
    "ScaledDotScorer",
    "Scorer",
    "UniformScorer",
    "get",
]
