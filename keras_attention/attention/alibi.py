"""Linear biases for attention, ALiBi, Press et al. 2022 (https://arxiv.org/abs/2108.12409).

    score(q_i, k_j) - m_h |i - j|        m_h = 2^(-8 h / heads),  h = 1 .. heads

Code name -> paper name: `slopes` -> m. Each head favors a different distance. Nothing is learned,
so a model can process sequences longer than those it was trained on. The paper has j <= i; for
later keys we use the distance, too.
"""

import math

import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Size, Tensor, TensorLike
from keras_attention.attention._request import AttentionRequest


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slope of each head, float32 `(heads,)`, steepest first for a power of two.

    If `num_heads` is no power of two, the slopes of the next smaller power come first, then every
    other slope of the next larger one, as in the authors' code.
    """
    validation.check_positive_int("alibi_slopes", "num_heads", num_heads)
    below = 2 ** int(math.log2(num_heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, below + 1) / below)
    between = 2.0 ** (-8.0 * np.arange(1, 2 * below + 1, 2) / (2 * below))
    return np.concatenate([slopes, between])[:num_heads].astype("float32")


def alibi_bias(
    num_heads: int, num_queries: Size, num_keys: Size, position_offset: TensorLike | None = None
) -> Tensor:
    """Returns the `attention_bias` of ALiBi, which decreases linearly with distance.

    Args:
        num_heads: Positive int.
        num_queries: Int or int tensor, the number of queries.
        num_keys: Int or int tensor, the number of keys; their positions are 0, 1, 2, ...
        position_offset: Optional int `(batch,)`, the position of the first query, or
            `(batch, query)`, that of each. The default positions are 0, 1, 2, ...

    Returns:
        Float32 tensor `(1 or batch, heads, query, key)`.

    Example:

    >>> ops.convert_to_numpy(alibi_bias(8, 2, 3)[0, 0]).tolist()
    [[0.0, -0.5, -1.0], [-0.5, 0.0, -0.5]]
    """
    if position_offset is not None:
        position_offset = ops.convert_to_tensor(position_offset)
    positions = AttentionRequest(position=position_offset).positions(num_queries)
    behind = -ops.abs(positions[:, :, None] - ops.arange(num_keys, dtype="int32"))
    return alibi_slopes(num_heads)[:, None, None] * ops.cast(behind, "float32")[:, None]
