"""A draw from the softmax that lets gradients through, Jang et al. 2017
(https://arxiv.org/abs/1611.01144) and Maddison et al. 2017 (https://arxiv.org/abs/1611.00712).

    g_i = -log(-log u_i),  u_i uniform in (0, 1)                  Jang et al., equation 1
    y_i = exp((s_i + g_i) / t) / sum_j exp((s_j + g_j) / t)       Jang et al., equation 2
    straight through: one-hot at the largest y, with the gradient of y       section 2.2

Code name -> paper name: `scores` -> log pi, `temperature` -> tau (here t), `weights` -> y.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.noise import gumbel
from keras_attention.normalizers.argmax import first_maximum
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.softmax import masked_softmax

INFERENCES = ("noiseless", "sample")


def gumbel_softmax(scores, noise, temperature, straight_through=False, mask=None):
    """Returns the softmax of `(scores + noise) / temperature`, or its maximum as a one-hot."""
    noisy = scores if noise is None else scores + noise
    soft = masked_softmax(noisy / temperature, mask)
    if not straight_through:
        return soft
    # The bracket is exactly 0: it carries the gradient only.
    return first_maximum(noisy, mask) + (soft - ops.stop_gradient(soft))


@keras.saving.register_keras_serializable(package="keras_attention")
class GumbelSoftmaxNormalizer(Normalizer):
    """Draws nearly one-hot weights while training, and lets gradients through.

    Use it for hard attention without REINFORCE. As `temperature` goes to 0 the weights
    become a draw from the softmax of the scores, and the gradients noisier.

    Args:
        temperature: Positive float.
        straight_through: Whether the weights are exactly one-hot, with the gradients of the
            soft ones.
        inference: "noiseless" leaves the noise out outside of training: the softmax of
            `scores / temperature`, or its maximum with `straight_through`. "sample" draws
            there too.
        seed: Optional int, the seed of the draws.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.
        training: Whether noise is added.
        noise: Optional float tensor like `scores`, standard Gumbel noise that was drawn
            before.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `temperature` is not positive, `inference` is neither, or `mask`
            does not fit.

    Masking: masked keys get exactly 0; a row without keys gets zeros.

    Example:

    >>> normalizer = GumbelSoftmaxNormalizer(0.5, straight_through=True, seed=1)
    >>> drawn = normalizer(keras.ops.zeros((1, 3)), training=True)
    >>> sorted(float(weight) for weight in drawn[0])
    [0.0, 0.0, 1.0]

    Reference: Jang et al. 2017, https://arxiv.org/abs/1611.01144, section 2.
    """

    random = True

    def __init__(
        self, temperature=1.0, straight_through=False, inference="noiseless", seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        owner = "GumbelSoftmaxNormalizer"
        hint = "`ArgmaxNormalizer()` is the limit at 0."
        self.temperature = checks.number_in_range(
            owner, "temperature", temperature, 0, above=True, hint=hint
        )
        self.straight_through = straight_through
        self.inference = checks.one_of(owner, "inference", inference, INFERENCES)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def noise(self, shape, training=None):
        draws = training or self.inference == "sample"
        return gumbel(shape, self.seed_generator) if draws else None

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return gumbel_softmax(scores, noise, self.temperature, self.straight_through, mask)

    def get_config(self):
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "straight_through": self.straight_through,
            "inference": self.inference,
            "seed": self.seed,
        }
