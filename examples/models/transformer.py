"""The Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    the encoder of `examples.models.encoders.transformer`                section 3.1
    the decoder of `keras_attention.TransformerDecoder`                  section 3.1

The paper's base model: 6 layers, width 512, 8 heads, feed-forward 2048, dropout 0.1, one table for
both embeddings and the logits, label smoothing 0.1, Adam with 4,000 steps of warm-up. The defaults
here suit a laptop; `PAPER` holds the paper's.
"""

from typing import Literal

import keras

from examples.commands.options import Fraction
from examples.models import assembly
from examples.models.encoders import transformer
from keras_attention import TransformerDecoder

TITLE = "Transformer: attention alone, in encoder and decoder"
REFERENCE = "Vaswani et al. 2017, arXiv 1706.03762"
PAPER = {
    "units": 512,
    "layers": 6,
    "heads": 8,
    "feed_forward_dim": 2048,
    "dropout": 0.1,
    "share_embeddings": True,
}
BELONGS_TO = {"max_length": ("positions", ("learned",))}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    layers: int = 3,
    heads: int = 4,
    feed_forward_dim: int | None = None,
    normalization: Literal["post", "pre"] = "post",
    positions: Literal["sinusoidal", "learned", "rotary", "relative"] = "sinusoidal",
    max_length: int = 256,
    window: int | None = None,
    share_embeddings: bool = False,
    dropout: Fraction = 0.1,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the Transformer as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Width of embeddings and layers.
        layers: Number of layers of the encoder, and of the decoder.
        heads: Number of heads, a divisor of --units.
        feed_forward_dim: Width of the feed-forward nets; four times --units by default.
        normalization: Normalize after each sublayer, as the paper, or before it.
        positions: How positions are distinguished.
        max_length: Number of positions that are learned on each side, with --positions learned.
        window: Odd number of positions that self-attention reads; all by default.
        share_embeddings: One table for both embeddings and the logits, of one vocabulary;
            otherwise the target's embedding and the logits share one.
        dropout: Fraction dropped from embeddings and from what each sublayer adds.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    shared = None
    if share_embeddings:
        if source_vocabulary_size != target_vocabulary_size:
            raise ValueError(
                "transformer shares embeddings over one vocabulary: train one tokenizer on both "
                f"languages. Received: source_vocabulary_size={source_vocabulary_size}, "
                f"target_vocabulary_size={target_vocabulary_size}"
            )
        normal = keras.initializers.RandomNormal(stddev=units**-0.5)
        shared = keras.layers.Embedding(
            source_vocabulary_size, units, normal, dtype=dtype, name="shared_embedding"
        )
    common = {
        "feed_forward_dim": feed_forward_dim or 4 * units,
        "dropout": dropout,
        "normalization": normalization,
        "positions": positions,
        "max_length": max_length,
        "window": window,
        "embedding": shared,
        "dtype": dtype,
    }
    encoder = transformer.build(source_vocabulary_size, units, layers, heads, seed=seed, **common)
    decoder = TransformerDecoder(
        target_vocabulary_size,
        units,
        layers,
        heads,
        seed=None if seed is None else seed + 1 + 2 * layers,
        name="decoder",
        **common,
    )
    return assembly.translator(encoder, decoder, "transformer")
