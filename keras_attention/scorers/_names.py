"""Names of the scorers that need no constructor arguments."""

from keras_attention._utils import registry
from keras_attention._utils.tensor_types import Config, DTypePolicy
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.bilinear import BilinearScorer
from keras_attention.scorers.concat import ConcatScorer
from keras_attention.scorers.cosine import CosineScorer
from keras_attention.scorers.dot import DotScorer, ScaledDotScorer
from keras_attention.scorers.general import GeneralScorer
from keras_attention.scorers.uniform import UniformScorer

SCORERS = {
    "dot": DotScorer,
    "scaled_dot": ScaledDotScorer,
    "cosine": CosineScorer,
    "concat": ConcatScorer,
    "general": GeneralScorer,
    "bilinear": BilinearScorer,
    "uniform": UniformScorer,
}


def get(scorer: str | Scorer | Config, dtype: DTypePolicy | None = None) -> Scorer:
    """Returns the scorer for a name, a config or a scorer object.

    "additive", "low_rank_bilinear", "location" and "mlp" need a size. Pass an object instead,
    for example `AdditiveScorer(units=64)`.

    Example:

    >>> get("scaled_dot").__class__.__name__
    'ScaledDotScorer'
    """
    return registry.resolve_piece("scorer", Scorer, SCORERS, scorer, dtype)
