"""Dropout whose mask is a hash of a counter, for compiled training on a CPU.

    keep_i = hash(i, seed) >= rate * 2^32        y_i = keep_i * x_i / (1 - rate)

XLA has no fast random numbers on a CPU: `keras.layers.Dropout` inside a compiled step takes more
than a hundred times as long as this (docs/performance.md). A mask needs no more than bits that
do not follow a pattern, and those an integer hash of the position gives. The hash is two rounds of
shift, exclusive-or and multiplication, each a bijection of 32 bits whose single-bit changes flip
every output bit about half of the time.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import checks

STRIDE = np.uint32(0x9E3779B1)  # odd: positions stay distinct modulo 2^32
MULTIPLIERS = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
SHIFTS = np.uint32(16), np.uint32(15), np.uint32(16)


def mix(bits):
    """Returns a hash of uint32 `bits`, a bijection."""
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, shift)) * multiplier
    return ops.bitwise_xor(bits, ops.right_shift(bits, SHIFTS[-1]))


def dropout_noise(shape, rate, seed_generator, dtype):
    """Returns what multiplies a tensor of `shape` under dropout: 0 or `1 / (1 - rate)`.

    Args:
        shape: Sizes, ints or int tensors.
        rate: Float in [0, 1), the share of zeros.
        seed_generator: A `keras.random.SeedGenerator`; each call takes one seed from it.
        dtype: The dtype of the result.
    """
    if keras.backend.backend() == "torch":  # has no arithmetic on uint32
        ones = ops.ones(shape, dtype=dtype)
        return keras.random.dropout(ones, rate, seed=seed_generator)
    seed = ops.cast(seed_generator.next(), "uint32")
    count = ops.prod(ops.stack([ops.cast(size, "int32") for size in shape]))
    positions = ops.cast(ops.arange(count), "uint32")
    bits = mix(mix(positions * STRIDE + seed[0]) + seed[1])
    keep = ops.reshape(bits >= np.uint32(int(rate * 2**32)), shape)
    return ops.cast(keep, dtype) * ops.cast(1.0 / (1.0 - rate), dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class CounterDropout(keras.layers.Layer):
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
