"""The names under which scorers without required arguments can be asked for."""

from keras_attention import names
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.bilinear import BilinearScorer
from keras_attention.scorers.concat import ConcatScorer
from keras_attention.scorers.cosine import CosineScorer
from keras_attention.scorers.dot import DotScorer, ScaledDotScorer
from keras_attention.scorers.general import GeneralScorer
from keras_attention.scorers.uniform import UniformScorer

NAMES = {
    "dot": DotScorer,
    "scaled_dot": ScaledDotScorer,
    "cosine": CosineScorer,
    "concat": ConcatScorer,
    "general": GeneralScorer,
    "bilinear": BilinearScorer,
    "uniform": UniformScorer,
}


def get(scorer, dtype=None) -> Scorer:
    """Returns the scorer that a name, a config or an object stands for.

    "additive", "low_rank_bilinear", "location" and "mlp" need a size: pass the object,
    for example `AdditiveScorer(units=64)`.

    Example:

    >>> get("scaled_dot").__class__.__name__
    'ScaledDotScorer'
    """
    return names.piece_from("scorer", Scorer, NAMES, scorer, dtype)
