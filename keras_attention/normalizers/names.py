"""The names under which normalizers can be asked for."""

from keras_attention import names
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.softmax import SoftmaxNormalizer

NAMES = {"softmax": SoftmaxNormalizer}


def get(normalizer, dtype=None) -> Normalizer:
    """Returns the normalizer that a name, a config or an object stands for.

    Example:

    >>> get("softmax").__class__.__name__
    'SoftmaxNormalizer'
    """
    return names.piece_from("normalizer", Normalizer, NAMES, normalizer, dtype)
