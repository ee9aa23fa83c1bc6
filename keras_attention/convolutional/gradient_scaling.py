"""A layer that leaves values alone and scales their gradient.

    forward  y = x                    backward  dL/dx = factor dL/dy

Gehring et al. 2017 (https://arxiv.org/abs/1705.03122), section 3.5: an encoder that every layer
of a decoder attends to gets as many gradients, and its own is divided by their number.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer


@keras.saving.register_keras_serializable(package="keras_attention")
class GradientScaling(Layer):
    """Passes its input through and multiplies the gradient that comes back.

    Use it on what many parts of a model read, so that its gradient does not grow with their
    number.

    Args:
        factor: Number of at least 0; 0 stops the gradient.

    Call arguments:
        inputs: Float tensor of any shape.

    Returns:
        The values of `inputs`, in the compute dtype.

    Raises:
        ValueError: If `factor` is not a number of at least 0.

    Masking: passes the mask of its input on.

    Example:

    >>> [float(x) for x in GradientScaling(0.25)(keras.ops.array([3.0, -1.0]))]
    [3.0, -1.0]

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.5.
    """

    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.factor = checks.number_in_range("GradientScaling", "factor", factor, 0)
        self.built = True

    def call(self, inputs):
        # The difference is exactly 0, and carries the gradient.
        stopped = ops.stop_gradient(inputs)
        return stopped + self.factor * (inputs - stopped)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}
