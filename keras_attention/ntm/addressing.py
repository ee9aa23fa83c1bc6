"""Addressing of the heads of a Neural Turing Machine, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3).

    wc(i) = softmax_i(beta K[k, M(i)])              content                equations 5 and 6
    wg(i) = g wc(i) + (1 - g) w_{t-1}(i)            interpolation          equation 7
    w~(i) = sum_j wg(j) s(i - j)                    shift, modulo slots    equation 8
    w(i)  = w~(i)^gamma / sum_j w~(j)^gamma         sharpening             equation 9

Code name -> paper name: `key` -> k_t, `strength` -> beta_t, `gate` -> g_t, `shift` -> s_t,
`sharpening` -> gamma_t, `memory` -> M_t, `previous` -> w_{t-1}. The paper gives the shift in two
forms, a softmax over integer shifts and one scalar between two of them; see `shift_types`.

Every function takes all heads at once, `(batch, heads, ...)`, and computes in at least float32.
"""

from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.scorers.cosine import inverse_norms

LOG_EPSILON = 1e-12


def similarities(key: TensorLike, memory: TensorLike) -> Tensor:
    """Returns the cosine of every key and every slot, `(batch, heads, memory_size)`.

    Args:
        key: Float tensor `(batch, heads, word_size)`.
        memory: Float tensor `(batch, memory_size, word_size)`.
    """
    key, memory = at_least_float32(key), at_least_float32(memory)
    products = ops.einsum("bhd,bnd->bhn", key, memory)
    return products * inverse_norms(key)[:, :, None] * inverse_norms(memory)[:, None, :]


def content_weights(key: TensorLike, strength: TensorLike, memory: TensorLike) -> Tensor:
    """Returns the weights of content-based addressing, `(batch, heads, memory_size)`.

    Args:
        key: Float tensor `(batch, heads, word_size)`.
        strength: Float tensor `(batch, heads)`, beta, not negative.
        memory: Float tensor `(batch, memory_size, word_size)`.

    Example:

    >>> memory = ops.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> weights = content_weights(ops.array([[[2.0, 0.0]]]), ops.array([[1.0]]), memory)
    >>> [round(float(weight), 4) for weight in weights[0, 0]]
    [0.7311, 0.2689]
    """
    return ops.softmax(at_least_float32(strength)[:, :, None] * similarities(key, memory))


def interpolate(content: TensorLike, previous: TensorLike, gate: TensorLike) -> Tensor:
    """Interpolates between the content weights and the previous weights.

    Args:
        content: Float tensor `(batch, heads, memory_size)`.
        previous: Float tensor `(batch, heads, memory_size)`.
        gate: Float tensor `(batch, heads)` in [0, 1]; 0 keeps the previous weights.

    Example:

    >>> content, previous = ops.array([[[1.0, 0.0]]]), ops.array([[[0.0, 1.0]]])
    >>> [float(weight) for weight in interpolate(content, previous, ops.array([[0.25]]))[0, 0]]
    [0.25, 0.75]
    """
    previous = at_least_float32(previous)
    return previous + at_least_float32(gate)[:, :, None] * (content - previous)


def circular_shift(weights: TensorLike, shift: TensorLike) -> Tensor:
    """Returns the weights shifted along the slots, with wrap-around.

    Args:
        weights: Float tensor `(batch, heads, memory_size)`.
        shift: Float tensor `(batch, heads, shifts)`: the weight of every integer shift, an odd
            number of them around 0. The last moves the focus to a higher index.

    Example:

    >>> one_up = ops.array([[[0.0, 0.0, 1.0]]])
    >>> [float(weight) for weight in circular_shift(ops.array([[[0.5, 0.0, 0.5]]]), one_up)[0, 0]]
    [0.5, 0.5, 0.0]
    """
    num_shifts, max_shift = shift.shape[-1], shift.shape[-1] // 2
    padded = wrap_around(weights, max_shift)
    memory_size = weights.shape[-1]
    terms = [
        shift[:, :, index, None]
        * padded[:, :, num_shifts - 1 - index : num_shifts - 1 - index + memory_size]
        for index in range(num_shifts)
    ]
    return sum(terms[1:], terms[0])


def wrap_around(weights: TensorLike, max_shift: int) -> Tensor:
    """Returns the slots, padded with the last and the first `max_shift` slots."""
    if max_shift == 0:
        return weights
    return ops.concatenate(
        [weights[:, :, -max_shift:], weights, weights[:, :, :max_shift]], axis=-1
    )


def scalar_shift(weights: TensorLike, shift: TensorLike) -> Tensor:
    """Returns the weights shifted by a real number of any size.

    With n = floor(shift) and f = shift - n, a fraction 1 - f moves by n and f by n + 1.

    Args:
        weights: Float tensor `(batch, heads, memory_size)`.
        shift: Float tensor `(batch, heads)`.

    Example:

    >>> weights = scalar_shift(ops.array([[[1.0, 0.0, 0.0]]]), ops.array([[4.25]]))
    >>> [float(weight) for weight in weights[0, 0]]
    [0.0, 0.75, 0.25]
    """
    shift = at_least_float32(shift)
    memory_size = weights.shape[-1]
    whole = ops.floor(shift)
    part = (shift - whole)[:, :, None]
    whole = ops.cast(ops.mod(whole, memory_size), "int32")[:, :, None]
    step = 1
    while step < memory_size:  # one roll for every bit of the shift; a gather is slow, and its
        rolled = ops.roll(weights, step, axis=-1)  # gradient does not compile under XLA
        weights = ops.where(ops.bitwise_and(whole, step) > 0, rolled, weights)
        step *= 2
    return (1.0 - part) * weights + part * ops.roll(weights, 1, axis=-1)


def sharpen(weights: TensorLike, sharpening: TensorLike) -> Tensor:
    """Returns the weights raised to a power and normalized: they sum to 1.

    Args:
        weights: Float tensor `(batch, heads, memory_size)`, not negative.
        sharpening: Float tensor `(batch, heads)`, gamma, at least 1.

    Example:

    >>> weights = sharpen(ops.array([[[0.25, 0.75]]]), ops.array([[2.0]]))
    >>> [round(float(weight), 4) for weight in weights[0, 0]]
    [0.1, 0.9]
    """
    logarithms = ops.log(at_least_float32(weights) + LOG_EPSILON)
    return ops.softmax(at_least_float32(sharpening)[:, :, None] * logarithms)
