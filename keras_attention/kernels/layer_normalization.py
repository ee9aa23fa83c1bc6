"""Layer normalization that XLA fuses into one kernel on a GPU, Ba et al. 2016.

    y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gamma + beta

Keras computes x * s + (beta - mean * s), with s = gamma / sqrt(...), in three kernels.
"""

import keras
from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Tensor


@keras.saving.register_keras_serializable(package="keras_attention")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` of the last axis, with scale and center."""

    def call(self, inputs: Tensor) -> Tensor:
        inputs = at_least_float32(inputs)
        centered = inputs - ops.mean(inputs, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        gamma, beta = (ops.cast(weight, inputs.dtype) for weight in (self.gamma, self.beta))
        outputs = centered * ops.rsqrt(variance + self.epsilon) * gamma + beta
        return ops.cast(outputs, self.compute_dtype)
