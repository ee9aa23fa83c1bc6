"""Dropout with a counter-based mask, for training compiled by XLA on a CPU.

    keep_i = bits_i >= rate * 2^32        y_i = keep_i * x_i / (1 - rate)

In a step that XLA compiles for a CPU, `keras.layers.Dropout` takes more than a hundred times as
long as this layer (docs/performance.md). `keras_attention/_utils/counter_random.py` computes the
bits.
"""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.counter_random import random_bits
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    DType,
    LayerOptions,
    OutputShape,
    Shape,
    Sizes,
    Tensor,
    TensorLike,
)


def dropout_noise(
    shape: Sizes, rate: float, seed_generator: keras.random.SeedGenerator, dtype: DType
) -> Tensor:
    """Returns the dropout multipliers for a tensor of `shape`: 0 or `1 / (1 - rate)`.

    Args:
        shape: Sizes, ints or int tensors.
        rate: Float in [0, 1), the fraction of zeros.
        seed_generator: A `keras.random.SeedGenerator`; each call takes one seed from it.
        dtype: The dtype of the result.
    """
    keep = random_bits(shape, seed_generator) >= np.uint32(int(rate * 2**32))
    return ops.cast(keep, dtype) * ops.cast(1.0 / (1.0 - rate), dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class CounterDropout(Layer):
    """Dropout at almost no cost in steps compiled by XLA on a CPU.

    Use it instead of `keras.layers.Dropout` in models that train with
    `jit_compile=True`. Its masks differ from Keras', with the same distribution.

    Args:
        rate: Float in [0, 1), the fraction of entries set to 0 while training; the others are
            multiplied by `1 / (1 - rate)`.
        seed: Optional int.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether to apply dropout.

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `rate` lies outside [0, 1).

    Masking: propagates the mask of its input.

    Example:

    >>> dropped = CounterDropout(0.5, seed=1)(keras.ops.ones((2, 3)), training=True)
    >>> {float(value) for value in keras.ops.ravel(dropped)} <= {0.0, 2.0}
    True

    Reference: Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.
    """

    def __init__(
        self, rate: float, seed: int | None = None, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.rate: float = validation.check_number_in_range(
            "CounterDropout", "rate", rate, 0, 1, exclude_high=True
        )
        self.seed = seed
        if self.rate > 0:
            self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> TensorLike:
        if not training or self.rate == 0:
            return inputs
        shape = get_shape(inputs)
        return inputs * dropout_noise(shape, self.rate, self.seed_generator, inputs.dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
