"""Weight normalization, Salimans and Kingma 2016 (https://arxiv.org/abs/1602.07868).

    w = g v / |v|          equation 2, for each output channel

The length g and the direction v of a kernel's columns are learned separately. g starts at |v|, so
that the initial kernel is the one from the initializer.

Code name -> paper name: the variable `kernel`, in the functions `direction` -> v, `gain` -> g.
"""

from collections.abc import Callable
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import apply_to_rows
from keras_attention._utils.tensor_types import (
    Config,
    DenseOptions,
    Initializer,
    InitializerFunction,
    LayerOptions,
    OutputShape,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.kernels.matmul_precision import Dense, kernel_matmul

TINY = 1e-24  # inside the root: keeps the gradient of a zero direction finite


def column_norms(direction: TensorLike) -> Tensor:
    """Returns |v| of each output channel, the last axis of a kernel.

    Example:

    >>> [round(float(norm), 6) for norm in column_norms(ops.array([[3.0], [4.0]]))]
    [5.0]
    """
    axes = tuple(range(len(direction.shape) - 1))
    return ops.sqrt(ops.sum(ops.square(direction), axis=axes) + TINY)


def normalize_kernel(direction: TensorLike, gain: TensorLike) -> Tensor:
    """Returns `g v / |v|` for a kernel of any rank whose last axis is the output channel.

    Example:

    >>> kernel = normalize_kernel(ops.array([[3.0], [4.0]]), ops.array([2.0]))
    >>> [round(float(weight), 6) for weight in kernel[:, 0]]
    [1.2, 1.6]
    """
    return direction * (gain / column_norms(direction))


def gain_initializer(direction: TensorLike) -> Callable[..., Tensor]:
    """Returns an initializer that starts g at |v| of the weight `direction`."""

    def draw(shape, dtype=None):
        return ops.cast(column_norms(ops.convert_to_tensor(direction)), dtype)

    return draw


@keras.saving.register_keras_serializable(package="keras_attention")
class WeightNormalizedDense(Layer):
    """A linear map with a bias whose kernel is parametrized by length and direction.

    Use it in deep models without other normalization: the relative size of an update does not
    depend on the size of the kernel. Kernels are normalized in at least float32 in every policy.

    Args:
        units: Positive int, the size of the outputs.
        kernel_initializer: Initializer of the kernel.

    Call arguments:
        inputs: Float tensor `(batch, dim)` or `(batch, time, dim)`.

    Returns:
        A tensor of the shape of `inputs` with the last axis `units`, in the compute dtype.

    Raises:
        ValueError: If `units` is not a positive int, or `inputs` has the wrong rank.

    Masking: maps each position separately, whatever its mask, and propagates the mask.

    Example:

    >>> tuple(WeightNormalizedDense(5)(keras.ops.ones((2, 3, 7))).shape)
    (2, 3, 5)

    Reference: Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868, section 2.
    """

    def __init__(
        self,
        units: int,
        kernel_initializer: Initializer = "lecun_normal",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units: int = validation.check_positive_int("WeightNormalizedDense", "units", units)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, inputs_shape: Shape) -> None:
        self._check_shape(inputs_shape)

        def add(name, shape, initializer):
            return self.add_weight(shape, initializer, name=name, autocast=False)

        self.kernel: keras.Variable = add(
            "kernel", (inputs_shape[-1], self.units), self.kernel_initializer
        )
        self.gain: keras.Variable = add("gain", (self.units,), gain_initializer(self.kernel))
        self.bias: keras.Variable = add("bias", (self.units,), "zeros")
        self.built = True

    def call(self, inputs: Tensor) -> TensorLike:
        self._check_shape(inputs.shape)
        direction, gain = (
            at_least_float32(ops.convert_to_tensor(weight)) for weight in (self.kernel, self.gain)
        )
        kernel = ops.cast(normalize_kernel(direction, gain), self.compute_dtype)
        # One product of two matrices makes a training step of ConvS2S a quarter faster.
        bias = ops.cast(self.bias, self.compute_dtype)
        return apply_to_rows(lambda rows: kernel_matmul(rows, kernel) + bias, inputs)

    def _check_shape(self, shape):
        if len(shape) not in (2, 3):
            raise ValueError(
                "WeightNormalizedDense expects `inputs` of rank 2 or 3, (batch, [time,] dim). "
                f"Received: inputs.shape={tuple(shape)}"
            )
        validation.check_built_dims(self, inputs=shape)

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        self._check_shape(inputs_shape)
        return (*tuple(inputs_shape)[:-1], self.units)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }


def make_dense(
    units: int, weight_normalization: bool = True, **options: Unpack[DenseOptions]
) -> keras.layers.Layer:
    """Returns a linear map with a bias: a `WeightNormalizedDense` or Keras' `Dense`.

    Example:

    >>> [type(make_dense(3, normalized)).__name__ for normalized in (True, False)]
    ['WeightNormalizedDense', 'Dense']
    """
    layer = WeightNormalizedDense if weight_normalization else Dense
    return layer(units, **options)
