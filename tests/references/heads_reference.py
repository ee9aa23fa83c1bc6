"""Multi-head attention as the paper writes it, in NumPy: one row, head and query at a time."""

import numpy as np


def softmax(scores, kept):
    """Returns the softmax over the kept scores, zeros where there are none."""
    weights = np.zeros_like(scores)
    if kept.any():
        exponentials = np.exp(scores[kept] - scores[kept].max())
        weights[kept] = exponentials / exponentials.sum()
    return weights


def rotate(vector, position, base=10000.0):
    """Returns the vector with pair i turned by `position * base^(-2i/d)`."""
    result = np.zeros_like(vector)
    for i in range(len(vector) // 2):
        angle = position * base ** (-2 * i / len(vector))
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        result[2 * i : 2 * i + 2] = rotation @ vector[2 * i : 2 * i + 2]
    return result


def multi_head(layer, query, value, key=None, kept=None, bias=None, rotary=False, position=0):
    """Returns contexts `(batch, query, output_dim)` and weights `(batch, heads, query, key)`.

    Args:
        layer: A built `MultiHeadAttention` with scaled dot products, whose weights are read.
        query: Array `(batch, query, query_dim)`; `value` and `key` likewise.
        kept: Optional boolean `(batch, query, key)`.
        bias: Optional array `(batch, heads, query, key)`.
        rotary: Whether queries and keys are turned.
        position: The position of the first query.
    """
    key = value if key is None else key
    batch, queries, keys = query.shape[0], query.shape[1], value.shape[1]
    kept = np.ones((batch, queries, keys), bool) if kept is None else kept
    dense = [layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense]
    kernels = [np.array(one.kernel, "float64") for one in dense]
    biases = [np.array(one.bias, "float64") if layer.use_bias else 0.0 for one in dense]
    heads, groups = layer.num_heads, layer.num_key_value_heads or layer.num_heads
    width, value_dim = layer.key_dim, layer.value_dim or layer.key_dim
    contexts = np.zeros((batch, queries, kernels[3].shape[1]))
    weights = np.zeros((batch, heads, queries, keys))
    for b in range(batch):
        q, k, v = query[b] @ kernels[0], key[b] @ kernels[1], value[b] @ kernels[2]
        q, k, v = q + biases[0], k + biases[1], v + biases[2]
        for i in range(queries):
            joined = []
            for h in range(heads):
                g = h // (heads // groups)
                one = q[i, h * width : (h + 1) * width]
                others = k[:, g * width : (g + 1) * width]
                if rotary:
                    one = rotate(one, position + i)
                    others = np.array([rotate(other, j) for j, other in enumerate(others)])
                scores = np.array([one @ other for other in others]) / np.sqrt(width)
                scores = scores if bias is None else scores + bias[b, h, i]
                weights[b, h, i] = softmax(scores, kept[b, i])
                joined.append(weights[b, h, i] @ v[:, g * value_dim : (g + 1) * value_dim])
            if kept[b, i].any():
                contexts[b, i] = np.concatenate(joined) @ kernels[3] + biases[3]
    return contexts, weights
