"""Where the heads of a Neural Turing Machine look, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3).

    wc(i) = softmax_i(beta K[k, M(i)])              content                equations 5 and 6
    wg(i) = g wc(i) + (1 - g) w_{t-1}(i)            interpolation          equation 7
    w~(i) = sum_j wg(j) s(i - j)                    shift, modulo slots    equation 8
    w(i)  = w~(i)^gamma / sum_j w~(j)^gamma         sharpening             equation 9

Code name -> paper name: `key` -> k_t, `strength` -> beta_t, `gate` -> g_t, `shift` -> s_t,
`sharpening` -> gamma_t, `memory` -> M_t, `previous` -> w_{t-1}. The paper gives the shift in two
forms, a softmax over whole shifts and one scalar between two of them; see `shifts`.

Every function takes all heads at once, `(batch, heads, ...)`, and computes in at least float32.
"""

from keras import ops

from keras_attention.precision import at_least_float32
from keras_attention.scorers.cosine import inverse_norms

LOG_EPSILON = 1e-12


def similarities(key, memory):
    """Returns the cosine of every key and every slot, `(batch, heads, slots)`.

    Args:
        key: Float tensor `(batch, heads, slot_dim)`.
        memory: Float tensor `(batch, slots, slot_dim)`.
    """
    key, memory = at_least_float32(key), at_least_float32(memory)
    products = ops.einsum("bhd,bnd->bhn", key, memory)
    return products * inverse_norms(key)[:, :, None] * inverse_norms(memory)[:, None, :]


def content_weights(key, strength, memory):
    """Returns the weights of addressing by content, `(batch, heads, slots)`.

    Args:
        key: Float tensor `(batch, heads, slot_dim)`.
        strength: Float tensor `(batch, heads)`, beta, not negative.
        memory: Float tensor `(batch, slots, slot_dim)`.

    Example:

    >>> memory = ops.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> weights = content_weights(ops.array([[[2.0, 0.0]]]), ops.array([[1.0]]), memory)
    >>> [round(float(weight), 4) for weight in weights[0, 0]]
    [0.7311, 0.2689]
    """
    return ops.softmax(at_least_float32(strength)[:, :, None] * similarities(key, memory))


def interpolate(content, previous, gate):
    """Returns the mean of the content weights and the previous ones that the gate asks for.

    Args:
        content: Float tensor `(batch, heads, slots)`.
        previous: Float tensor `(batch, heads, slots)`.
        gate: Float tensor `(batch, heads)` in [0, 1]; 0 keeps the previous weights.

    Example:

    >>> content, previous = ops.array([[[1.0, 0.0]]]), ops.array([[[0.0, 1.0]]])
    >>> [float(weight) for weight in interpolate(content, previous, ops.array([[0.25]]))[0, 0]]
    [0.25, 0.75]
    """
    previous = at_least_float32(previous)
    return previous + at_least_float32(gate)[:, :, None] * (content - previous)


def circular_shift(weights, shift):
    """Returns the weights moved along the slots; what leaves at one end enters at the other.

    Args:
        weights: Float tensor `(batch, heads, slots)`.
        shift: Float tensor `(batch, heads, shifts)`: the share of every whole shift, an odd
            number of them around 0. The last moves the focus to a higher index.

    Example:

    >>> one_up = ops.array([[[0.0, 0.0, 1.0]]])
    >>> [float(weight) for weight in circular_shift(ops.array([[[0.5, 0.0, 0.5]]]), one_up)[0, 0]]
    [0.5, 0.5, 0.0]
    """
    shares, reach = shift.shape[-1], shift.shape[-1] // 2
    around = wrapped(weights, reach)
    slots = weights.shape[-1]
    moved = [
        shift[:, :, index, None] * around[:, :, shares - 1 - index : shares - 1 - index + slots]
        for index in range(shares)
    ]
    return sum(moved[1:], moved[0])


def wrapped(weights, reach):
    """Returns the slots with the last `reach` before them and the first `reach` after them."""
    if reach == 0:
        return weights
    return ops.concatenate([weights[:, :, -reach:], weights, weights[:, :, :reach]], axis=-1)


def scalar_shift(weights, shift):
    """Returns the weights moved by one number of any size, between two whole shifts.

    With n = floor(shift) and f = shift - n, a share of 1 - f moves by n and f by n + 1.

    Args:
        weights: Float tensor `(batch, heads, slots)`.
        shift: Float tensor `(batch, heads)`.

    Example:

    >>> weights = scalar_shift(ops.array([[[1.0, 0.0, 0.0]]]), ops.array([[4.25]]))
    >>> [float(weight) for weight in weights[0, 0]]
    [0.0, 0.75, 0.25]
    """
    shift = at_least_float32(shift)
    slots = weights.shape[-1]
    whole = ops.floor(shift)
    part = (shift - whole)[:, :, None]
    whole = ops.cast(ops.mod(whole, slots), "int32")[:, :, None]
    step = 1
    while step < slots:  # a roll for every bit of the whole shift; a gather is slow, and its
        moved = ops.roll(weights, step, axis=-1)  # gradient does not compile under XLA
        weights = ops.where(ops.bitwise_and(whole, step) > 0, moved, weights)
        step *= 2
    return (1.0 - part) * weights + part * ops.roll(weights, 1, axis=-1)


def sharpen(weights, sharpening):
    """Returns the weights raised to a power and normalized: they sum to 1.

    Args:
        weights: Float tensor `(batch, heads, slots)`, not negative.
        sharpening: Float tensor `(batch, heads)`, gamma, at least 1.

    Example:

    >>> weights = sharpen(ops.array([[[0.25, 0.75]]]), ops.array([[2.0]]))
    >>> [round(float(weight), 4) for weight in weights[0, 0]]
    [0.1, 0.9]
    """
    logarithms = ops.log(at_least_float32(weights) + LOG_EPSILON)
    return ops.softmax(at_least_float32(sharpening)[:, :, None] * logarithms)
