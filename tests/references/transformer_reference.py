"""The Transformer in NumPy, float64, written like the paper: loops over rows and positions."""

import numpy as np


def array(variable):
    return np.array(variable).astype("float64")


def normalize(x, layer, epsilon=1e-5):
    """LN(x) of one vector."""
    centered = x - x.mean()
    scaled = centered / np.sqrt((centered**2).mean() + epsilon)
    return scaled * array(layer.gamma) + array(layer.beta)


def attend(layer, x, memory, may_read):
    """MultiHead(x, memory, memory) of one batch element; `may_read[i]` are what i reads."""
    wq, wk, wv = (array(d.kernel) for d in (layer.query_dense, layer.key_dense, layer.value_dense))
    wo, size = array(layer.output_dense.kernel), layer.key_dim
    outputs, weights = np.zeros_like(x), np.zeros((layer.num_heads, len(x), len(memory)))
    for i in range(len(x)):
        if not may_read[i]:
            continue
        heads = []
        for h in range(layer.num_heads):
            part = slice(h * size, (h + 1) * size)
            scores = [
                (x[i] @ wq[:, part]) @ (memory[j] @ wk[:, part]) / np.sqrt(size)
                for j in may_read[i]
            ]
            a = np.exp(scores - np.max(scores))
            weights[h, i, may_read[i]] = a / a.sum()
            heads.append(sum(weights[h, i, j] * (memory[j] @ wv[:, part]) for j in may_read[i]))
        outputs[i] = np.concatenate(heads) @ wo
    return outputs, weights


def feed_forward(layer, x):
    """FFN(x) of one batch element."""
    hidden = np.maximum(
        0, x @ array(layer.intermediate_dense.kernel) + array(layer.intermediate_dense.bias)
    )
    return hidden @ array(layer.feed_forward_output_dense.kernel) + array(
        layer.feed_forward_output_dense.bias
    )


def sublayer(layer, name, x, branch):
    """LN(x + branch(x)), or x + branch(LN(x))."""
    norm = getattr(layer, f"{name}_normalization")

    def normalize_rows(values):
        return np.array([normalize(value, norm) for value in values])

    if layer.normalization == "pre":
        return x + branch(normalize_rows(x))
    return normalize_rows(x + branch(x))


def encoder_layer(layer, x, kept):
    """One batch element: x `(length, dim)`, `kept` a boolean a position."""
    radius = len(x) if layer.window is None else layer.window // 2
    places = range(len(x))
    may_read = [[j for j in places if kept[j] and kept[i] and abs(i - j) <= radius] for i in places]
    x = np.where(kept[:, None], x, 0)
    x = sublayer(layer, "attention", x, lambda x: attend(layer.attention, x, x, may_read)[0])
    x = sublayer(layer, "feed_forward", x, lambda x: feed_forward(layer, x))
    return np.where(kept[:, None], x, 0)


def decoder_layer(layer, x, memory, kept):
    """One batch element: outputs and the weights over the memory `(heads, target, source)`."""
    radius = len(x) if layer.window is None else layer.window // 2
    earlier = [[j for j in range(i + 1) if i - j <= radius] for i in range(len(x))]
    source = [[j for j in range(len(memory)) if kept[j]]] * len(x)
    weights = []

    def cross(x):
        context, found = attend(layer.cross_attention, x, memory, source)
        weights.append(found)
        return context

    attention = layer.self_attention
    x = sublayer(layer, "self_attention", x, lambda x: attend(attention, x, x, earlier)[0])
    x = sublayer(layer, "cross_attention", x, cross)
    x = sublayer(layer, "feed_forward", x, lambda x: feed_forward(layer, x))
    return x, weights[0]


def positions(length, dim):
    """PE."""
    table = np.zeros((length, dim))
    for position in range(length):
        for i in range(dim // 2):
            table[position, 2 * i] = np.sin(position / 10000 ** (2 * i / dim))
            table[position, 2 * i + 1] = np.cos(position / 10000 ** (2 * i / dim))
    return table


def decoder(layer, ids, memory, kept):
    """One batch element of a `TransformerDecoder` with tied logits: logits and last alignment."""
    table = array(layer.embed.table.embeddings)
    x = np.sqrt(layer.dim) * table[ids] + positions(len(ids), layer.dim)
    for one in layer.stack:
        x, weights = decoder_layer(one, x, memory, kept)
    if layer.normalization == "pre":
        x = np.array([normalize(row, layer.final_normalization) for row in x])
    return x @ table.T, weights.mean(axis=0)
