"""A layer that keeps values and scales their gradient.

    forward  y = x                    backward  dL/dx = factor dL/dy

Gehring et al. 2017 (https://arxiv.org/abs/1705.03122), section 3.5: if every layer of a decoder
attends to an encoder, the encoder's gradient is divided by their number.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    OutputShape,
    Shape,
    Tensor,
    TensorLike,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class GradientScaling(Layer):
    """Returns its input and multiplies the gradient by a factor.

    Use it on a tensor that many parts of a model use, so that its gradient does not grow with
    their number.

    Args:
        factor: Number of at least 0; 0 stops the gradient.

    Call arguments:
        inputs: Float tensor of any shape.

    Returns:
        The values of `inputs`, in the compute dtype.

    Raises:
        ValueError: If `factor` is not a number of at least 0.

    Masking: propagates the mask of its input.

    Example:

    >>> [float(x) for x in GradientScaling(0.25)(keras.ops.array([3.0, -1.0]))]
    [3.0, -1.0]

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.5.
    """

    def __init__(self, factor: float, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.factor: float = validation.check_number_in_range(
            "GradientScaling", "factor", factor, 0
        )
        self.built = True

    def call(self, inputs: Tensor) -> TensorLike:
        # The difference is exactly 0, that of infinities none, and only carries the gradient.
        stopped = ops.stop_gradient(inputs)
        scaled = stopped + self.factor * (inputs - stopped)
        return ops.where(ops.isfinite(stopped), scaled, stopped)

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {**super().get_config(), "factor": self.factor}
