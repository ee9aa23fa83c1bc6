"""Reading and writing the memory of a Neural Turing Machine, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, sections 3.1 and 3.2).

    r_t     = sum_i w_t(i) M_t(i)                               equation 2
    M~_t(i) = M_{t-1}(i) * (1 - w_t(i) e_t)     erase           equation 3
    M_t(i)  = M~_t(i) + w_t(i) a_t              then add        equation 4

With several write heads all erases multiply and then all additions sum, so that their order does
not matter. Code name -> paper name: `memory` -> M, `weights` -> w, `erase` -> e, `addition` -> a.
"""

from keras import ops


def read(memory, weights):
    """Returns what every head reads, `(batch, heads, slot_dim)`.

    Args:
        memory: Float tensor `(batch, slots, slot_dim)`.
        weights: Float tensor `(batch, heads, slots)`.

    Example:

    >>> memory = ops.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> [float(number) for number in read(memory, ops.array([[[0.5, 0.5]]]))[0, 0]]
    [2.0, 3.0]
    """
    return ops.einsum("bhn,bnd->bhd", weights, memory)


def write(memory, weights, erase, addition):
    """Returns the memory after all heads have erased and then added.

    Args:
        memory: Float tensor `(batch, slots, slot_dim)`.
        weights: Float tensor `(batch, heads, slots)`.
        erase: Float tensor `(batch, heads, slot_dim)` in [0, 1].
        addition: Float tensor `(batch, heads, slot_dim)`.

    Example:

    >>> memory, weights = ops.array([[[1.0, 2.0], [3.0, 4.0]]]), ops.array([[[0.0, 1.0]]])
    >>> written = write(memory, weights, ops.array([[[1.0, 0.5]]]), ops.array([[[7.0, 0.0]]]))
    >>> [[float(number) for number in slot] for slot in written[0]]
    [[1.0, 2.0], [7.0, 2.0]]
    """
    for head in range(weights.shape[1]):
        memory = memory * (1.0 - outer(weights, erase, head))
    for head in range(weights.shape[1]):
        memory = memory + outer(weights, addition, head)
    return memory


def outer(weights, vectors, head):
    """Returns the product of a head's weight at every slot and its vector."""
    return weights[:, head, :, None] * vectors[:, head, None, :]
