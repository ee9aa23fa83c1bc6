"""Dropout whose mask is a hash of a counter, for compiled training on a CPU.

    keep_i = bits_i >= rate * 2^32        y_i = keep_i * x_i / (1 - rate)

`keras.layers.Dropout` inside a step that XLA compiled for a CPU takes more than a hundred times
as long as this (docs/performance.md). Where the bits come from: `keras_attention/noise.py`.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.noise import random_bits


def dropout_noise(shape, rate, seed_generator, dtype):
    """Returns what multiplies a tensor of `shape` under dropout: 0 or `1 / (1 - rate)`.

    Args:
        shape: Sizes, ints or int tensors.
        rate: Float in [0, 1), the share of zeros.
        seed_generator: A `keras.random.SeedGenerator`; each call takes one seed from it.
        dtype: The dtype of the result.
    """
    keep = random_bits(shape, seed_generator) >= np.uint32(int(rate * 2**32))
    return ops.cast(keep, dtype) * ops.cast(1.0 / (1.0 - rate), dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class CounterDropout(Layer):
    """Dropout that costs next to nothing in a step compiled with XLA on a CPU.

    Use it in place of `keras.layers.Dropout` in models that train with
    `jit_compile=True`. The masks differ from Keras', the distribution does not.

    Args:
        rate: Float in [0, 1), the share of entries set to 0 while training; the others are
            multiplied by `1 / (1 - rate)`.
        seed: Optional int.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether anything is dropped.

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `rate` lies outside [0, 1).

    Masking: passes the mask of its input on.

    Example:

    >>> dropped = CounterDropout(0.5, seed=1)(keras.ops.ones((2, 3)), training=True)
    >>> {float(value) for value in keras.ops.ravel(dropped)} <= {0.0, 2.0}
    True

    Reference: Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate = checks.number_in_range("CounterDropout", "rate", rate, 0, 1, below=True)
        self.seed = seed
        if self.rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        shape = tuple(
            known if known is not None else size
            for known, size in zip(inputs.shape, ops.shape(inputs), strict=True)
        )
        return inputs * dropout_noise(shape, self.rate, self.seed_generator, inputs.dtype)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
