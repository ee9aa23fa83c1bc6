"""The encoder of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

x_0 = drop(sqrt(d) E[token] + PE)                               sections 3.4 and 3.5
x_n = the n-th `TransformerEncoderLayer` of x_{n-1}             section 3.1
"""

import keras

from keras_attention import (
    RelativePositionEmbedding,
    RotaryEmbedding,
    TransformerEmbedding,
    TransformerEncoderLayer,
)


def build(
    vocabulary_size,
    dim,
    layers,
    heads,
    feed_forward_dim,
    dropout=0.1,
    normalization="post",
    positions="sinusoidal",
    window=None,
    embedding=None,
    max_length=256,
    seed=None,
    dtype=None,
):
    """Returns the encoder: source ids to `memory`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        dim: Width of the embedding and of every layer.
        layers: Number of layers.
        heads: Number of heads, a divisor of `dim`.
        feed_forward_dim: Width of the feed-forward nets.
        dropout: Fraction dropped from embeddings and from what each sublayer adds.
        normalization: "post" as in the paper, or "pre" with a normalization at the end.
        positions: "sinusoidal", "learned", "rotary" or "relative".
        window: Odd number of positions that a position reads; None reads all.
        embedding: Optional `keras.layers.Embedding`, to be shared with a decoder.
        max_length: The longest source of learned positions.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, dim)`.
    """
    source = keras.Input([None], dtype="int32", name="source")
    states = TransformerEmbedding(
        vocabulary_size,
        dim,
        positions,
        dropout,
        max_length,
        embedding,
        seed=seed,
        dtype=dtype,
        name="source_embedding",
    )(source)
    is_relative = positions == "relative"
    for index in range(layers):
        states = TransformerEncoderLayer(
            heads,
            feed_forward_dim,
            dropout,
            normalization,
            window=window,
            rotary=RotaryEmbedding(dtype=dtype) if positions == "rotary" else None,
            seed=None if seed is None else seed + 1 + 2 * index,
            relative_keys=RelativePositionEmbedding(dtype=dtype) if is_relative else None,
            relative_values=RelativePositionEmbedding(dtype=dtype) if is_relative else None,
            dtype=dtype,
            name=f"layer_{index}",
        )(states)
    if normalization == "pre":
        states = keras.layers.LayerNormalization(
            epsilon=1e-5, dtype=dtype, name="final_normalization"
        )(states)
    return keras.Model(source, {"memory": states}, name="encoder")
