"""Decay of the rate of true tokens, Bengio et al. 2015 (https://arxiv.org/abs/1506.03099).

    linear           eps_i = max(eps_min, k - c i)
    exponential      eps_i = k^i                            k < 1
    inverse sigmoid  eps_i = k / (k + exp(i / k))           k >= 1

Section 2.4; i counts minibatches. The last is computed as sigmoid(log k - i / k), which cannot
overflow; it starts at k / (k + 1), not at 1.
"""

import math
from typing import Self

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Config, Size, TensorLike


class Decay:
    """A function of the number of minibatches, with values in [0, 1]; abstract.

    Any other serializable function of a number that returns a number works as well.
    """

    def __call__(self, step: Size) -> TensorLike:
        raise NotImplementedError

    def get_config(self) -> Config:
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attention")
class LinearDecay(Decay):
    """Decreases by the same amount with every minibatch, down to a minimum.

    Args:
        slope: Number of at least 0, c in the paper.
        start: Float in [0, 1], the value at the first minibatch, k in the paper.
        minimum: Float in [0, 1], eps_min in the paper.

    Call arguments:
        step: Int or float, or a tensor of either: the minibatches so far.

    Returns:
        A float32 tensor of the shape of `step`.

    Raises:
        ValueError: If an argument lies outside its range.

    Example:

    >>> decay = LinearDecay(0.01, minimum=0.25)
    >>> [float(decay(step)) for step in (0, 50, 100)]
    [1.0, 0.5, 0.25]

    Reference: Bengio et al. 2015, https://arxiv.org/abs/1506.03099, section 2.4.
    """

    def __init__(self, slope: float, start: float = 1.0, minimum: float = 0.0) -> None:
        self.slope: float = validation.check_number_in_range("LinearDecay", "slope", slope, 0)
        self.start: float = validation.check_number_in_range("LinearDecay", "start", start, 0, 1)
        self.minimum: float = validation.check_number_in_range(
            "LinearDecay", "minimum", minimum, 0, 1
        )

    def __call__(self, step: Size) -> TensorLike:
        return ops.maximum(self.minimum, self.start - self.slope * ops.cast(step, "float32"))

    def get_config(self) -> Config:
        return {"slope": self.slope, "start": self.start, "minimum": self.minimum}


@keras.saving.register_keras_serializable(package="keras_attention")
class ExponentialDecay(Decay):
    """Is multiplied by the same factor with every minibatch.

    Args:
        base: Float in [0, 1), k in the paper.

    Call arguments:
        step: Int or float, or a tensor of either: the minibatches so far.

    Returns:
        A float32 tensor of the shape of `step`.

    Raises:
        ValueError: If `base` lies outside [0, 1).

    Example:

    >>> decay = ExponentialDecay(0.99)
    >>> [round(float(decay(step)), 4) for step in (0, 50, 100)]
    [1.0, 0.605, 0.366]

    Reference: Bengio et al. 2015, https://arxiv.org/abs/1506.03099, section 2.4.
    """

    def __init__(self, base: float) -> None:
        self.base: float = validation.check_number_in_range(
            "ExponentialDecay", "base", base, 0, 1, exclude_high=True
        )

    def __call__(self, step: Size) -> TensorLike:
        return ops.power(ops.cast(self.base, "float32"), ops.cast(step, "float32"))

    def get_config(self) -> Config:
        return {"base": self.base}


@keras.saving.register_keras_serializable(package="keras_attention")
class InverseSigmoidDecay(Decay):
    """Stays high at first, and decreases fastest around minibatch `speed * log(speed)`.

    Args:
        speed: Number of at least 1, k in the paper: the larger, the slower.

    Call arguments:
        step: Int or float, or a tensor of either: the minibatches so far.

    Returns:
        A float32 tensor of the shape of `step`.

    Raises:
        ValueError: If `speed` is below 1.

    Example:

    >>> decay = InverseSigmoidDecay(20)
    >>> [round(float(decay(step)), 6) for step in (0, 50, 100)]
    [0.952381, 0.621456, 0.118756]

    Reference: Bengio et al. 2015, https://arxiv.org/abs/1506.03099, section 2.4.
    """

    def __init__(self, speed: float) -> None:
        self.speed: float = validation.check_number_in_range(
            "InverseSigmoidDecay", "speed", speed, 1
        )

    def __call__(self, step: Size) -> TensorLike:
        return ops.sigmoid(math.log(self.speed) - ops.cast(step, "float32") / self.speed)

    def get_config(self) -> Config:
        return {"speed": self.speed}
