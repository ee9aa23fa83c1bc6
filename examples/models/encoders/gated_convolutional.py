"""The encoder of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

e_j = dropout(w_j + p_j),  z = W_e e + b                            section 3.1
z <- (GLU(conv(dropout(z))) + z) sqrt(1/2), a layer each            section 3.2
z^u = W_z z + b                                                     section 3.2
"""

import keras

from keras_attention import (
    Attention,
    CounterDropout,
    GatedConvBlock,
    WeightNormalizedDense,
)
from keras_attention.convolutional import scaled_normal
from keras_attention.convolutional.padded_normal import PaddedNormal
from keras_attention.transformer import LearnedPositionalEmbedding


def build(
    vocabulary_size,
    embedding_dim,
    convolutions,
    dropout=0.0,
    max_length=1024,
    with_embeddings=True,
    initial_state_units=None,
    seed=None,
    dtype=None,
):
    """Returns the encoder: source ids to `memory`, and perhaps `initial_state`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        embedding_dim: Size of the source embedding and of the outputs.
        convolutions: List of `(units, kernel_size)`, one pair a layer.
        dropout: Fraction dropped from the embedding and from what each convolution reads.
        max_length: Number of positions that are learned.
        with_embeddings: Whether `memory` is `[z^u; e]`, what `ConvDecoder` reads, or z^u alone,
            for decoders of a different kind.
        initial_state_units: Size of `initial_state`, a tanh layer of the mean of z^u over the
            real positions; None for a decoder that begins without.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, 2 * embedding_dim)`, or half as wide without the embeddings, and where
        asked for `initial_state` `(batch, initial_state_units)`.
    """
    source = keras.Input([None], dtype="int32", name="source")
    words = keras.layers.Embedding(
        vocabulary_size,
        embedding_dim,
        PaddedNormal(0.1),
        mask_zero=True,
        dtype=dtype,
        name="source_embedding",
    )(source)
    normal = keras.initializers.RandomNormal(stddev=0.1)
    embedded = LearnedPositionalEmbedding(
        max_length, initializer=normal, dtype=dtype, name="positions"
    )(words)
    embedded = CounterDropout(dropout, seed=seed, dtype=dtype, name="embedding_dropout")(embedded)

    outputs = _linear(convolutions[0][0], 1 - dropout, dtype, "input_projection")(embedded)
    for index, (units, kernel_size) in enumerate(convolutions):
        outputs = GatedConvBlock(
            units,
            kernel_size,
            dropout=dropout,
            seed=None if seed is None else seed + 1 + index,
            dtype=dtype,
            name=f"block_{index}",
        )(outputs)
    outputs = _linear(embedding_dim, 1.0, dtype, "output_projection")(outputs)

    encoded = {"memory": outputs}
    if with_embeddings:
        join = keras.layers.Concatenate(dtype=dtype, name="memory")
        encoded["memory"] = join([outputs, embedded])
    if initial_state_units is not None:
        mean = Attention("uniform", dtype=dtype, name="mean")(outputs[:, 0], outputs)
        dense = keras.layers.Dense(
            initial_state_units, activation="tanh", dtype=dtype, name="initial_state"
        )
        encoded["initial_state"] = dense(mean)
    return keras.Model(source, encoded, name="encoder")


def _linear(units, keep_prob, dtype, name):
    return WeightNormalizedDense(units, scaled_normal(keep_prob), dtype=dtype, name=name)
