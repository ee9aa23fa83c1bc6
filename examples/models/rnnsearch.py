"""RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    the encoder of `examples.models.encoders.bidirectional_gru`          section 3.2
    the decoder of `keras_attention.BahdanauDecoder`                     section 3.1

The paper: units 1000, embedding 620, maxout 500, vocabulary 30,000, orthogonal recurrent
matrices, Adadelta, batches of 80. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.arguments import fraction
from examples.models import assembly
from examples.models.encoders import bidirectional_gru
from examples.options import Option
from keras_attention import Attention, BahdanauAttention, BahdanauDecoder

TITLE = "RNNsearch: bidirectional GRU, additive attention, GRU decoder"
REFERENCE = "Bahdanau et al. 2015, arXiv 1409.0473"
PAPER = {"units": 1000, "embedding_dim": 620, "maxout_units": 500}
OPTIONS = {
    "units": Option(256, "size of the decoder's state, of an encoder direction, of the attention"),
    "embedding_dim": Option(256, "size of both embeddings"),
    "maxout_units": Option(None, "size of the maxout layer (default: half of --units)"),
    "attention": Option(
        "additive", "'none' is the control: the mean annotation", str, ("additive", "none")
    ),
    "readout_state": Option(
        "current", "read out the new state or the one before", str, ("current", "previous")
    ),
    "dropout": Option(0.0, "share dropped from embeddings, annotations and readout", fraction),
}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    maxout_units: int | None = None,
    attention: str = "additive",
    readout_state: str = "current",
    dropout: float = 0.0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns RNNsearch as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of the decoder's state, of each encoder direction and of the attention.
        embedding_dim: Size of both embeddings.
        maxout_units: Size of the maxout layer; half of `units` by default.
        attention: "additive", or "none" for the control that reads the mean annotation.
        readout_state: "current" or "previous"; see `BahdanauDecoder`.
        dropout: Share dropped from embeddings, annotations and the maxout layer.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    if attention not in ("additive", "none"):
        raise ValueError(
            "rnnsearch expects `attention` to be 'additive', or 'none' for the control. "
            f"Received: attention={attention!r}"
        )
    mechanism = (
        BahdanauAttention(units, dtype=dtype, name="attention")
        if attention == "additive"
        else Attention("uniform", dtype=dtype, name="attention")
    )
    encoder = bidirectional_gru.build(
        source_vocabulary_size, units, embedding_dim, dropout, seed, dtype
    )
    decoder = BahdanauDecoder(
        target_vocabulary_size,
        embedding_dim,
        units,
        maxout_units,
        attention=mechanism,
        readout_state=readout_state,
        dropout=dropout,
        seed=None if seed is None else seed + 2,
        dtype=dtype,
        name="decoder",
    )
    return assembly.translator(encoder, decoder, "rnnsearch")
