"""Names of the normalizers."""

from keras_attention._utils import registry
from keras_attention._utils.tensor_types import Config, DTypePolicy
from keras_attention.normalizers.argmax import ArgmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.entmax import EntmaxNormalizer
from keras_attention.normalizers.forward import ForwardNormalizer
from keras_attention.normalizers.gumbel_softmax import GumbelSoftmaxNormalizer
from keras_attention.normalizers.monotonic import MonotonicNormalizer
from keras_attention.normalizers.sample import SampleNormalizer
from keras_attention.normalizers.softmax import SoftmaxNormalizer
from keras_attention.normalizers.sparsemax import SparsemaxNormalizer

NORMALIZERS = {
    "softmax": SoftmaxNormalizer,
    "sparsemax": SparsemaxNormalizer,
    "entmax": EntmaxNormalizer,
    "argmax": ArgmaxNormalizer,
    "sample": SampleNormalizer,
    "gumbel_softmax": GumbelSoftmaxNormalizer,
    "forward": ForwardNormalizer,
    "monotonic": MonotonicNormalizer,
}


def get(normalizer: str | Normalizer | Config, dtype: DTypePolicy | None = None) -> Normalizer:
    """Returns the normalizer for a name, a config or a normalizer object.

    Example:

    >>> get("softmax").__class__.__name__
    'SoftmaxNormalizer'
    """
    return registry.resolve_piece("normalizer", Normalizer, NORMALIZERS, normalizer, dtype)
