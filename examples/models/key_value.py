"""Keys and values from different embeddings, Li et al. 2019 (https://arxiv.org/abs/1910.02612).

the encoder of `examples.models.encoders.two_embeddings`             section 3
the decoder of `keras_attention.KeyValueDecoder`

Each source word has a functional embedding, which says where to read, and a primitive embedding,
from which the output token is predicted. So a word that is used like a known one is read like it:
after "walk twice" and "jump" alone, "jump twice" can be right. Russin et al. 2019
(https://arxiv.org/abs/1904.09708) separate syntax and semantics in this way too.

The sizes are those of the authors' program (github.com/yli1/CGPS), as are the standard deviation 1
of the noise, gradients clipped at a norm of 1, and Adam, and the penalty: 0.1 times the mean square
of the embeddings at each source position beside a loss that is the sum over a target. Here the loss
is the mean over tokens, of which SCAN has 13.7 a target: 0.1 / 13.7. What differs: it attends with
the general score and, for the output, with a matrix row for each source position, here both scores
are additive; it trains on 5,000 batches of 4,096 commands.
"""

from typing import Literal

import keras

from examples.commands.options import Fraction, NonNegativeFloat
from examples.models import assembly
from examples.models.encoders import two_embeddings
from keras_attention import KeyValueDecoder

TITLE = "Key-value: keys and values from different embeddings, for words in new places"
REFERENCE = "Li et al. 2019, arXiv 1910.02612"


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 64,
    embedding_dim: int = 8,
    value_dim: int = 16,
    noise: NonNegativeFloat = 1.0,
    embedding_l2: NonNegativeFloat = 0.0073,
    penalty: Literal["positions", "words"] = "positions",
    dropout: Fraction = 0.0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the model as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of a key and of the decoder's state, even.
        embedding_dim: Size of the functional embedding, from which the keys are made.
        value_dim: Size of the primitive embedding, the value.
        noise: Standard deviation of the Gaussian noise on both embeddings while training.
        embedding_l2: Factor of the penalty on both embeddings; 0.0005 suits --penalty words.
        penalty: Their mean squares at each source position, as in the authors' program, which draws
            frequent words to 0 the most; or the squares of the tables, every word alike.
        dropout: Fraction dropped from the decoder's states before they are compared with the keys.
        seed: Optional int, the seed of the noise and the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    encoder = two_embeddings.build(
        source_vocabulary_size,
        units,
        embedding_dim,
        value_dim,
        noise,
        embedding_l2,
        penalty,
        seed,
        dtype,
    )
    decoder = KeyValueDecoder(
        target_vocabulary_size,
        units,
        value_dim,
        dropout=dropout,
        seed=None if seed is None else seed + 2,
        dtype=dtype,
        name="decoder",
    )
    return assembly.translator(encoder, decoder, "key_value")
