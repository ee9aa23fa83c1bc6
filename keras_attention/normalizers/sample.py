"""A key drawn from the softmax, and what REINFORCE needs to know about the draw.

    g_i = -log(-log u_i),  u_i uniform in (0, 1)
    w   = one-hot at argmax_i (s_i + g_i)          is distributed as softmax(s)
    log_prob = log softmax(s)_i at the drawn i     entropy = -sum_i p_i log p_i

The stochastic attention of Xu et al. 2015 (https://arxiv.org/abs/1502.03044), equations 8 and 9;
that the noise makes a draw of the maximum is the Gumbel-max trick, see Maddison et al. 2017
(https://arxiv.org/abs/1611.00712), section 2.2. Code name -> paper name: `weights` -> s_t.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.noise import gumbel
from keras_attention.normalizers.argmax import first_maximum
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores
from keras_attention.precision import at_least_float32

INFERENCES = ("argmax", "sample")


def log_prob(scores, weights, mask=None):
    """Returns the log-probability of the keys that were drawn.

    Args:
        scores: Float tensor `(..., key)`, what the normalizer was given.
        weights: The one-hot weights that it returned.
        mask: The mask that it was given.

    Returns:
        Tensor of the shape of `scores` without the key axis, float32 (float64 for float64
        scores), with a gradient to `scores`; 0 where nothing was drawn.

    Example:

    >>> scores, weights = keras.ops.zeros((1, 4)), keras.ops.array([[0.0, 1.0, 0.0, 0.0]])
    >>> round(float(log_prob(scores, weights)[0]), 4)
    -1.3863
    """
    return ops.sum(ops.where(weights > 0, _log_softmax(scores, mask), 0), axis=-1)


def entropy(scores, mask=None):
    """Returns the entropy of softmax(scores) over the kept keys, 0 for an empty row.

    The arguments and the result are those of `log_prob`.

    Example:

    >>> round(float(entropy(keras.ops.zeros((1, 4)))[0]), 4)
    1.3863
    """
    log_probs = _log_softmax(scores, mask)
    terms = ops.exp(log_probs) * log_probs
    return -ops.sum(terms if mask is None else ops.where(mask, terms, 0), axis=-1)


def _log_softmax(scores, mask):
    return ops.log_softmax(masked_scores(at_least_float32(scores), mask), axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class SampleNormalizer(Normalizer):
    """Puts all weight on one key, drawn with the probability the softmax gives it.

    Use it for hard attention trained by REINFORCE: no gradient reaches the scores through
    the weights; it comes from `SampleNormalizer.log_prob(scores, weights, mask)` and
    `SampleNormalizer.entropy(scores, mask)`, pure functions of what went in and came out.

    Args:
        inference: "argmax" takes the best key outside of training, "sample" draws there too.
        seed: Optional int, the seed of the draws.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.
        training: Whether a key is drawn, or the best one taken.
        noise: Optional float tensor like `scores`, standard Gumbel noise that was drawn
            before.

    Returns:
        One-hot weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `inference` is neither, or `mask` does not fit.

    Masking: a masked key is never drawn; a row without keys gets zeros.

    Example:

    >>> normalizer, scores = SampleNormalizer(seed=1), keras.ops.zeros((1000, 2))
    >>> shares = keras.ops.mean(normalizer(scores, training=True), axis=0)
    >>> bool(keras.ops.all(keras.ops.abs(shares - 0.5) < 0.05))
    True
    >>> [float(weight) for weight in normalizer(scores)[0]]
    [1.0, 0.0]

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    random = True
    log_prob = staticmethod(log_prob)
    entropy = staticmethod(entropy)

    def __init__(self, inference="argmax", seed=None, **kwargs):
        super().__init__(**kwargs)
        self.inference = checks.one_of("SampleNormalizer", "inference", inference, INFERENCES)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def noise(self, shape, training=None):
        draws = training or self.inference == "sample"
        return gumbel(shape, self.seed_generator) if draws else None

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return first_maximum(scores if noise is None else scores + noise, mask)

    def get_config(self):
        return {**super().get_config(), "inference": self.inference, "seed": self.seed}
