"""Random numbers that depend only on a seed, a step and a token.

    key      = threefry(seed, step)                     64 bits
    bits_v   = mix(mix(v * stride + key_1) + key_2)     32 bits for token v
    gumbel_v = -log(-log((first 23 bits + 1/2) / 2^23))

A stateful generator, or one seed for a whole batch, would make a result depend on the other
elements of its batch. Here every batch element has its own seed, and its numbers come from
counters. Threefry-2x32 with 20 rounds, Salmon et al. 2011
(https://doi.org/10.1145/2063384.2063405), computes a key from seed and step. The hash of
`keras_attention._utils.counter_random` spreads the key over the vocabulary.
"""

import keras
import numpy as np
from keras import ops

from keras_attention._utils.counter_random import STRIDE, UNIFORM_BITS, hash_bits, wrap
from keras_attention.search._argument_tensors import check_rows, to_int_tensor

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA


def threefry(key, counter):
    """Returns 64 bits of Threefry-2x32-20 as two words.

    Args:
        key: Two uint32 tensors of one shape.
        counter: Two uint32 tensors, or numbers, that broadcast to it.

    Example:

    >>> zero = ops.zeros((1,), dtype="uint32")
    >>> [hex(int(word[0])) for word in threefry((zero, zero), (zero, zero))]
    ['0x6b200159', '0x99ba4efe']
    """
    keys = (*key, ops.bitwise_xor(ops.bitwise_xor(key[0], key[1]), np.uint32(PARITY)))
    first, second = wrap(counter[0] + keys[0]), wrap(counter[1] + keys[1])
    for round_ in range(5):
        for rotation in ROTATIONS[round_ % 2]:
            first = wrap(first + second)
            second = ops.bitwise_xor(_rotate_left(second, rotation), first)
        first = wrap(first + keys[(round_ + 1) % 3])
        second = wrap(second + keys[(round_ + 2) % 3] + np.uint32(round_ + 1))
    return first, second


def split_seeds(owner, seed, batch):
    """Returns `seed`, `(batch,)` or `(batch, 2)` ints, as two uint32 words per batch element."""
    meaning = "one int per batch element, (batch,) or (batch, 2), so that results are independent"
    shape = getattr(seed, "shape", None)
    seed = seed if shape is not None else np.asarray(seed)
    rank = 2 if len(seed.shape) == 2 else 1
    if len(seed.shape) == 0 or "int" not in str(seed.dtype):
        raise ValueError(f"{owner} expects `seed` to be {meaning}. Received: seed={seed!r}")
    whole = to_int_tensor(owner, "seed", seed, rank, meaning)
    seed = ops.cast(whole, "int32")
    check_rows(owner, "seed", seed, batch)
    if rank == 2 and seed.shape[1] != 2:
        raise ValueError(
            f"{owner} expects `seed` to be {meaning}. Received: seed.shape={tuple(seed.shape)}"
        )
    words = wrap(ops.cast(seed, "uint32"))
    if rank == 2:
        return words[:, 0], words[:, 1]
    return words, _extract_high_words(whole, seed)


def _extract_high_words(whole, low):
    """Returns the high words of seeds wider than int32, one uint32 word each; mostly 0."""
    if keras.backend.standardize_dtype(whole.dtype) in ("int64", "uint64"):
        whole = ops.cast(whole, "int64")
        return wrap(ops.cast((whole - ops.cast(low, "int64")) // 2**32, "uint32"))
    return ops.zeros_like(ops.cast(low, "uint32"))


def derive_keys(seeds, time):
    """Returns the key of each hypothesis at a step, two uint32 tensors `(rows,)`.

    Args:
        seeds: Two uint32 tensors `(rows,)`.
        time: Scalar int32 tensor, the step.
    """
    time = ops.zeros_like(seeds[0]) + ops.cast(time, "uint32")
    return threefry(seeds, (time, ops.zeros_like(time)))


def gumbel_noise(keys, ids):
    """Returns Gumbel noise for tokens: the argmax of `log p + noise` is a sample from `p`.

    Args:
        keys: Two uint32 tensors `(rows,)`.
        ids: Int32 tensor `(rows, tokens)` or `(1, tokens)`. The noise of a token does not depend
            on the other tokens.

    Returns:
        Float32 of shape `(rows, tokens)`.
    """
    first, second = (ops.expand_dims(key, 1) for key in keys)
    bits = hash_bits(wrap(hash_bits(wrap(ops.cast(ids, "uint32") * STRIDE + first)) + second))
    count = ops.cast(ops.right_shift(bits, np.uint32(32 - UNIFORM_BITS)), "int32")
    uniform = (ops.cast(count, "float32") + 0.5) * 2.0**-UNIFORM_BITS
    return -ops.log(-ops.log(uniform))


def _rotate_left(word, distance):
    left = wrap(ops.left_shift(word, np.uint32(distance)))
    return ops.bitwise_or(left, ops.right_shift(word, np.uint32(32 - distance)))
