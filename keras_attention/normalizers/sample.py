"""Samples one key from the softmax, with the log-probability and entropy for REINFORCE.

    g_i = -log(-log u_i),  u_i uniform in (0, 1)
    w   = one-hot at argmax_i (s_i + g_i)          is distributed as softmax(s)
    log_prob = log softmax(s)_i at the sampled i   entropy = -sum_i p_i log p_i

This is the stochastic attention of Xu et al. 2015 (https://arxiv.org/abs/1502.03044), equations 8
and 9. Sampling by the maximum of noisy scores is the Gumbel-max trick, see Maddison et al. 2017
(https://arxiv.org/abs/1611.00712), section 2.2. Code name -> paper name: `weights` -> s_t.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.counter_random import gumbel
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Config, LayerOptions, Sizes, Tensor, TensorLike
from keras_attention.normalizers._masking import mask_scores
from keras_attention.normalizers.argmax import one_hot_argmax
from keras_attention.normalizers.base import Normalizer

INFERENCE_MODES = ("argmax", "sample")


def log_prob(scores: TensorLike, weights: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """Returns the log-probability of the sampled keys.

    Args:
        scores: Float tensor `(..., key)`, the scores passed to the normalizer.
        weights: The one-hot weights that it returned.
        mask: The mask passed to it.

    Returns:
        Tensor of the shape of `scores` without the key axis, float32 (float64 for float64
        scores), with a gradient to `scores`; 0 for fully masked queries.

    Example:

    >>> scores, weights = keras.ops.zeros((1, 4)), keras.ops.array([[0.0, 1.0, 0.0, 0.0]])
    >>> round(float(log_prob(scores, weights)[0]), 4)
    -1.3863
    """
    return ops.sum(ops.where(weights > 0, _log_softmax(scores, mask), 0), axis=-1)


def entropy(scores: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """Returns the entropy of softmax(scores) over the unmasked keys, 0 for fully masked queries.

    The arguments and the result are those of `log_prob`.

    Example:

    >>> round(float(entropy(keras.ops.zeros((1, 4)))[0]), 4)
    1.3863
    """
    log_probs = _log_softmax(scores, mask)
    terms = ops.exp(log_probs) * log_probs
    return -ops.sum(terms if mask is None else ops.where(mask, terms, 0), axis=-1)


def _log_softmax(scores, mask):
    return ops.log_softmax(mask_scores(at_least_float32(scores), mask), axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class SampleNormalizer(Normalizer):
    """Puts all weight on one key, sampled from the softmax of the scores.

    Use it for hard attention trained by REINFORCE. No gradient reaches the scores through the
    weights; it comes from `SampleNormalizer.log_prob(scores, weights, mask)` and
    `SampleNormalizer.entropy(scores, mask)`, pure functions of its inputs and outputs.

    Args:
        inference_mode: "argmax" selects the best key outside of training, "sample" samples
            there too.
        seed: Optional int, the seed of the sampling.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.
        training: Whether to sample a key.
        noise: Optional float tensor like `scores`, standard Gumbel noise to use instead of
            sampling it.

    Returns:
        One-hot weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `inference_mode` is unknown, or `mask` does not fit.

    Masking: masked keys are never selected; fully masked queries get zeros.

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

    def __init__(
        self,
        inference_mode: str = "argmax",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.inference_mode: str = validation.check_one_of(
            "SampleNormalizer", "inference_mode", inference_mode, INFERENCE_MODES
        )
        self.seed = seed
        self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)

    def noise(self, shape: Sizes, training: bool | None = None) -> TensorLike | None:
        draws = training or self.inference_mode == "sample"
        return gumbel(shape, self.seed_generator) if draws else None

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        return one_hot_argmax(scores if noise is None else scores + noise, mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "inference_mode": self.inference_mode, "seed": self.seed}
