"""Counter-based random numbers, for training compiled by XLA on a CPU.

    bits_i    = hash(i, seed)                                32 of them
    uniform_i = (first 23 bits + 1/2) / 2^23                 in (0, 1), both ends excluded
    gumbel_i  = -log(-log uniform_i)
    normal_i  = sqrt 2 erfinv(2 uniform_i - 1)

XLA has no fast random number generator on a CPU. Noise only needs bits without a visible pattern,
which an integer hash of the position provides: two rounds of shift, exclusive-or and
multiplication. Each round is a bijection of 32 bits, and a change of a single input bit flips
every output bit about half of the time.
"""

import math

import keras
import numpy as np
from keras import ops

STRIDE = np.uint32(0x9E3779B1)  # odd, so that positions stay distinct modulo 2^32
MULTIPLIERS = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
SHIFTS = np.uint32(16), np.uint32(15), np.uint32(16)
UNIFORM_BITS = 23  # float32 still represents half a unit more exactly


def wrap(words):
    """Returns sums and products of uint32 words modulo 2^32; PyTorch stores them as 64 bits."""
    if keras.backend.backend() == "torch":
        return ops.bitwise_and(words, 0xFFFFFFFF)
    return words


def hash_bits(bits):
    """Returns a hash of uint32 `bits`, a bijection."""
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        bits = wrap(ops.bitwise_xor(bits, ops.right_shift(bits, shift)) * multiplier)
    return ops.bitwise_xor(bits, ops.right_shift(bits, SHIFTS[-1]))


def random_bits(shape, seed_generator):
    """Returns uint32 bits of `shape` (ints or int tensors); each call consumes one seed."""
    seed = wrap(ops.cast(seed_generator.next(), "uint32"))
    count = math.prod(shape)  # an int if all sizes are known, as JAX requires
    positions = ops.cast(ops.arange(count), "uint32")
    bits = hash_bits(wrap(hash_bits(wrap(positions * STRIDE + seed[0])) + seed[1]))
    return ops.reshape(bits, shape)


def uniform(shape, seed_generator):
    """Returns float32 numbers in (0, 1), excluding both ends."""
    bits = random_bits(shape, seed_generator)
    count = ops.cast(ops.right_shift(bits, np.uint32(32 - UNIFORM_BITS)), "int32")
    return (ops.cast(count, "float32") + 0.5) * 2.0**-UNIFORM_BITS


def gumbel(shape, seed_generator):
    """Returns float32 numbers from the standard Gumbel distribution.

    Added to scores, they turn the argmax into a sample from the softmax.
    """
    return -ops.log(-ops.log(uniform(shape, seed_generator)))


def normal(shape, seed_generator):
    """Returns float32 numbers from the standard normal distribution, within +-5.3."""
    return 2.0**0.5 * ops.erfinv(2.0 * uniform(shape, seed_generator) - 1.0)
