"""RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    h_j  = [forward_j; backward_j], one embedding, two gated units       section 3.2
    s_0  = tanh(W_s backward_1)                                          appendix A.2.2
    the decoder of `keras_attention.BahdanauDecoder`                     section 3.1

The paper: units 1000, embedding 620, maxout 500, vocabulary 30,000, orthogonal recurrent
matrices, Adadelta, batches of 80. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.arguments import fraction
from examples.options import Option
from keras_attention import (
    Attention,
    BahdanauAttention,
    BahdanauDecoder,
    BahdanauGRU,
    CounterDropout,
)

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


def build_encoder(vocabulary_size, units, embedding_dim, dropout=0.0, seed=None, dtype=None):
    """Returns the encoder: source ids to `memory` and `initial_state`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of one direction; an annotation has twice as many.
        embedding_dim: Size of the source embedding.
        dropout: Share dropped from the embedding and from the annotations.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, 2 * units)` and `initial_state` `(batch, units)`.
    """
    source = keras.Input([None], dtype="int32", name="source")
    embedded = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, dtype=dtype, name="source_embedding"
    )(source)
    embedded = CounterDropout(dropout, seed=seed, dtype=dtype)(embedded)
    annotations, _, backward = keras.layers.Bidirectional(
        BahdanauGRU(units, return_sequences=True, return_state=True, dtype=dtype),
        dtype=dtype,
        name="annotations",
    )(embedded)  # `backward` is the state after the first word, the last it reads
    seed = None if seed is None else seed + 1
    memory = CounterDropout(dropout, seed=seed, dtype=dtype, name="memory")(annotations)
    initial_state = keras.layers.Dense(units, activation="tanh", dtype=dtype, name="initial_state")(
        backward
    )
    return keras.Model(source, {"memory": memory, "initial_state": initial_state}, name="encoder")


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
    encoder = build_encoder(source_vocabulary_size, units, embedding_dim, dropout, seed, dtype)
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
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    encoded = encoder(source)
    logits = decoder(target, encoded["memory"], initial_state=encoded["initial_state"])
    return keras.Model({"source": source, "target": target}, logits, name="rnnsearch")
