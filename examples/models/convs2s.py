"""ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    the encoder of `examples.models.encoders.gated_convolutional`        section 3.2
    the decoder of `keras_attention.ConvDecoder`                         sections 3.2 to 3.5

The paper (English-Romanian): 20 layers on both sides, 512 units and embeddings, kernels of 3,
Nesterov's momentum 0.99, rate 0.25, gradients clipped at 0.1, rate divided by 10 when the
validation stalls, batches of 64. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

from typing import Literal

import keras

from examples.commands.options import Fraction
from examples.models import assembly
from examples.models.encoders import gated_convolutional
from keras_attention import ConvDecoder

TITLE = "ConvS2S: gated convolutions on both sides, attention in every decoder layer"
REFERENCE = "Gehring et al. 2017, arXiv 1705.03122"
PAPER = {
    "units": 512,
    "embedding_dim": 512,
    "encoder_layers": 20,
    "decoder_layers": 20,
    "dropout": 0.2,
}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    encoder_layers: int = 4,
    decoder_layers: int = 3,
    kernel_size: int = 3,
    scaling: Literal["code", "paper"] = "code",
    dropout: Fraction = 0.2,
    max_length: int = 1024,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns ConvS2S as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Width of the convolutions.
        embedding_dim: Size of both embeddings and of the attention.
        encoder_layers: Number of convolutions of the encoder.
        decoder_layers: Number of convolutions of the decoder; each has its attention.
        kernel_size: Positions that a convolution reads, an odd number.
        scaling: The arithmetic of the authors' program or of the text.
        dropout: Fraction dropped from the embeddings, before each convolution and before the
            logits.
        max_length: Number of positions that are learned on each side.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    encoder = gated_convolutional.build(
        source_vocabulary_size,
        embedding_dim,
        [(units, kernel_size)] * encoder_layers,
        dropout,
        max_length,
        seed=seed,
        dtype=dtype,
    )
    decoder = ConvDecoder(
        target_vocabulary_size,
        embedding_dim,
        [(units, kernel_size)] * decoder_layers,
        scaling=scaling,
        dropout=dropout,
        max_length=max_length,
        seed=None if seed is None else seed + 1 + encoder_layers,
        dtype=dtype,
        name="decoder",
    )
    return assembly.translator(encoder, decoder, "convs2s")
