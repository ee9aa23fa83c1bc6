"""Reading and writing the memory of a Neural Turing Machine, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, sections 3.1 and 3.2).

    r_t     = sum_i w_t(i) M_t(i)                               equation 2
    M~_t(i) = M_{t-1}(i) * (1 - w_t(i) e_t)     erase           equation 3
    M_t(i)  = M~_t(i) + w_t(i) a_t              then add        equation 4

With several write heads all erases multiply and then all additions sum, so that their order is
irrelevant. Code name -> paper name: `memory` -> M, `weights` -> w, `erase` -> e, `addition` -> a.
"""

from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike


def read_memory(memory: TensorLike, weights: TensorLike) -> Tensor:
    """Returns the read vector of every head, `(batch, heads, word_size)`.

    Args:
        memory: Float tensor `(batch, memory_size, word_size)`.
        weights: Float tensor `(batch, heads, memory_size)`.

    Example:

    >>> memory = ops.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> [float(number) for number in read_memory(memory, ops.array([[[0.5, 0.5]]]))[0, 0]]
    [2.0, 3.0]
    """
    return ops.einsum("bhn,bnd->bhd", weights, memory)


def write_memory(
    memory: TensorLike, weights: TensorLike, erase: TensorLike, addition: TensorLike
) -> Tensor:
    """Returns the memory after all heads have erased and then added.

    Args:
        memory: Float tensor `(batch, memory_size, word_size)`.
        weights: Float tensor `(batch, heads, memory_size)`.
        erase: Float tensor `(batch, heads, word_size)` in [0, 1].
        addition: Float tensor `(batch, heads, word_size)`.

    Example:

    >>> memory, weights = ops.array([[[1.0, 2.0], [3.0, 4.0]]]), ops.array([[[0.0, 1.0]]])
    >>> erase, addition = ops.array([[[1.0, 0.5]]]), ops.array([[[7.0, 0.0]]])
    >>> written = write_memory(memory, weights, erase, addition)
    >>> [[float(number) for number in slot] for slot in written[0]]
    [[1.0, 2.0], [7.0, 2.0]]
    """
    for head in range(weights.shape[1]):
        memory = memory * (1.0 - outer_product(weights, erase, head))
    for head in range(weights.shape[1]):
        memory = memory + outer_product(weights, addition, head)
    return memory


def outer_product(weights: TensorLike, vectors: TensorLike, head: int) -> Tensor:
    """Returns the outer product of a head's weights and its vector."""
    return weights[:, head, :, None] * vectors[:, head, None, :]
