"""Random numbers that are a hash of a counter, for compiled training on a CPU.

    bits_i    = hash(i, seed)                                32 of them
    uniform_i = (first 23 bits + 1/2) / 2^23                 in (0, 1), both ends left out
    gumbel_i  = -log(-log uniform_i)
    normal_i  = sqrt 2 erfinv(2 uniform_i - 1)

XLA has no fast random numbers on a CPU. Noise needs no more than bits that do not follow a
pattern, and those an integer hash of the position gives: two rounds of shift, exclusive-or
and multiplication, each a bijection of 32 bits whose single-bit changes flip every output bit
about half of the time.
"""

import math

import keras
import numpy as np
from keras import ops

STRIDE = np.uint32(0x9E3779B1)  # odd: positions stay distinct modulo 2^32
MULTIPLIERS = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
SHIFTS = np.uint32(16), np.uint32(15), np.uint32(16)
UNIFORM_BITS = 23  # half a unit more is still exact in float32


def wrap(words):
    """Returns sums and products of uint32 words modulo 2^32; PyTorch holds words in 64 bits."""
    if keras.backend.backend() == "torch":
        return ops.bitwise_and(words, 0xFFFFFFFF)
    return words


def mix(bits):
    """Returns a hash of uint32 `bits`, a bijection."""
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        bits = wrap(ops.bitwise_xor(bits, ops.right_shift(bits, shift)) * multiplier)
    return ops.bitwise_xor(bits, ops.right_shift(bits, SHIFTS[-1]))


def random_bits(shape, seed_generator):
    """Returns uint32 bits of `shape` (ints or int tensors); each call takes one seed."""
    seed = wrap(ops.cast(seed_generator.next(), "uint32"))
    count = math.prod(shape)  # an int where all sizes are known, as JAX demands
    positions = ops.cast(ops.arange(count), "uint32")
    bits = mix(wrap(mix(wrap(positions * STRIDE + seed[0])) + seed[1]))
    return ops.reshape(bits, shape)


def uniform(shape, seed_generator):
    """Returns float32 numbers between 0 and 1, neither of which occurs."""
    bits = random_bits(shape, seed_generator)
    count = ops.cast(ops.right_shift(bits, np.uint32(32 - UNIFORM_BITS)), "int32")
    return (ops.cast(count, "float32") + 0.5) * 2.0**-UNIFORM_BITS


def gumbel(shape, seed_generator):
    """Returns float32 numbers from the standard Gumbel distribution.

    Added to scores, they turn the argmax into a draw from the softmax.
    """
    return -ops.log(-ops.log(uniform(shape, seed_generator)))


def normal(shape, seed_generator):
    """Returns float32 numbers from the standard normal distribution, within 5.3."""
    return 2.0**0.5 * ops.erfinv(2.0 * uniform(shape, seed_generator) - 1.0)
