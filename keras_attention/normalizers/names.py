"""The names under which normalizers can be asked for."""

from keras_attention import names
from keras_attention.normalizers.argmax import ArgmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.entmax import EntmaxNormalizer
from keras_attention.normalizers.gumbel_softmax import GumbelSoftmaxNormalizer
from keras_attention.normalizers.monotonic import MonotonicNormalizer
from keras_attention.normalizers.sample import SampleNormalizer
from keras_attention.normalizers.softmax import SoftmaxNormalizer
from keras_attention.normalizers.sparsemax import SparsemaxNormalizer

NAMES = {
    "softmax": SoftmaxNormalizer,
    "sparsemax": SparsemaxNormalizer,
    "entmax": EntmaxNormalizer,
    "argmax": ArgmaxNormalizer,
    "sample": SampleNormalizer,
    "gumbel_softmax": GumbelSoftmaxNormalizer,
    "monotonic": MonotonicNormalizer,
}


def get(normalizer, dtype=None) -> Normalizer:
    """Returns the normalizer that a name, a config or an object stands for.

    Example:

    >>> get("softmax").__class__.__name__
    'SoftmaxNormalizer'
    """
    return names.piece_from("normalizer", Normalizer, NAMES, normalizer, dtype)
