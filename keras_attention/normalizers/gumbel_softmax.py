"""A differentiable sample from the softmax, Jang et al. 2017
(https://arxiv.org/abs/1611.01144) and Maddison et al. 2017 (https://arxiv.org/abs/1611.00712).

    g_i = -log(-log u_i),  u_i uniform in (0, 1)                  Jang et al., equation 1
    y_i = exp((s_i + g_i) / t) / sum_j exp((s_j + g_j) / t)       Jang et al., equation 2
    straight through: one-hot at the largest y, with the gradient of y       section 2.2

Code name -> paper name: `scores` -> log pi, `temperature` -> tau (here t), `weights` -> y.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.counter_random import gumbel
from keras_attention._utils.tensor_types import Config, LayerOptions, Sizes, Tensor, TensorLike
from keras_attention.normalizers.argmax import one_hot_argmax
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.softmax import masked_softmax

INFERENCE_MODES = ("noiseless", "sample")


def gumbel_softmax(
    scores: TensorLike,
    noise: TensorLike | None,
    temperature: float,
    straight_through: bool = False,
    mask: TensorLike | None = None,
) -> Tensor:
    """Returns the softmax of `(scores + noise) / temperature`, or its maximum as a one-hot."""
    noisy = scores if noise is None else scores + noise
    soft = masked_softmax(noisy / temperature, mask)
    if not straight_through:
        return soft
    # The difference is exactly 0 and only carries the gradient.
    return one_hot_argmax(noisy, mask) + (soft - ops.stop_gradient(soft))


@keras.saving.register_keras_serializable(package="keras_attention")
class GumbelSoftmaxNormalizer(Normalizer):
    """Returns nearly one-hot random weights during training, with gradients.

    Use it for hard attention without REINFORCE. As `temperature` approaches 0, the weights
    approach a sample from the softmax of the scores, and the gradients become noisier.

    Args:
        temperature: Positive float.
        straight_through: Whether the weights are exactly one-hot, with the gradients of the
            soft weights.
        inference_mode: "noiseless" adds no noise outside of training: the weights are the
            softmax of `scores / temperature`, or its maximum with `straight_through`. "sample"
            adds noise there too.
        seed: Optional int, the seed of the noise.

    Call arguments:
        scores: Float tensor `(..., key)`.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.
        training: Whether to add noise.
        noise: Optional float tensor like `scores`, standard Gumbel noise to use instead of
            sampling it.

    Returns:
        Weights of the shape of `scores` in the compute dtype, which sum to 1.

    Raises:
        ValueError: If `temperature` is not positive, `inference_mode` is unknown, or `mask`
            does not fit.

    Masking: masked keys get exactly 0; fully masked queries get zeros.

    Example:

    >>> normalizer = GumbelSoftmaxNormalizer(0.5, straight_through=True, seed=1)
    >>> drawn = normalizer(keras.ops.zeros((1, 3)), training=True)
    >>> sorted(float(weight) for weight in drawn[0])
    [0.0, 0.0, 1.0]

    Reference: Jang et al. 2017, https://arxiv.org/abs/1611.01144, section 2.
    """

    random = True

    def __init__(
        self,
        temperature: float = 1.0,
        straight_through: bool = False,
        inference_mode: str = "noiseless",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "GumbelSoftmaxNormalizer"
        hint = "The limit at 0 is `ArgmaxNormalizer()`."
        self.temperature: float = validation.check_number_in_range(
            owner, "temperature", temperature, 0, exclude_low=True, hint=hint
        )
        self.straight_through = straight_through
        self.inference_mode: str = validation.check_one_of(
            owner, "inference_mode", inference_mode, INFERENCE_MODES
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
        return gumbel_softmax(scores, noise, self.temperature, self.straight_through, mask)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "straight_through": self.straight_through,
            "inference_mode": self.inference_mode,
            "seed": self.seed,
        }
