"""Layer normalization that XLA fuses into one kernel on a GPU, Ba et al. 2016.

    y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gamma + beta

Keras computes x * s + (beta - mean * s), with s = gamma / sqrt(...), in three kernels.
"""

import keras
from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Tensor
from keras_attention.kernels import execution_mode, xla_barriers


@keras.saving.register_keras_serializable(package="keras_attention")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` of the last axis, with scale and center."""

    def call(self, inputs: Tensor) -> Tensor:
        inputs = at_least_float32(inputs)
        is_single_row = _is_single_row_on_gpu(inputs)
        if is_single_row:
            inputs = ops.broadcast_to(inputs, (2, *inputs.shape[1:]))
        centered = inputs - ops.mean(inputs, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        gamma, beta = (ops.cast(weight, inputs.dtype) for weight in (self.gamma, self.beta))
        outputs = centered * ops.rsqrt(variance + self.epsilon) * gamma + beta
        if is_single_row:
            outputs = xla_barriers.store_value(outputs[:1])
        return ops.cast(outputs, self.compute_dtype)


def _is_single_row_on_gpu(inputs):
    """Returns whether XLA on a GPU normalizes a vector, which takes it four kernels.

    It needs one for two vectors, and computes the second, an equal one, at no cost.
    """
    is_single_row = all(size == 1 for size in inputs.shape[:-1])
    is_on_gpu = execution_mode.has_gpu() and execution_mode.get_execution_mode(inputs) == "xla"
    return is_single_row and is_on_gpu
