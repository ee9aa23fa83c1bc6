"""RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    the encoder of `examples.models.encoders.bidirectional_gru`          section 3.2
    the decoder of `keras_attention.BahdanauDecoder`                     section 3.1

The paper: units 1000, embedding 620, maxout 500, vocabulary 30,000, recurrent matrices orthogonal,
W_a and U_a from N(0, 0.001^2), v_a and biases 0, all other weights from N(0, 0.01^2), Adadelta,
batches of 80. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.arguments import fraction, positive_number
from examples.models import assembly
from examples.models.encoders import bidirectional_gru
from examples.models.initial import draw_normal
from examples.models.sampling import OPTION as SAMPLING
from examples.models.sampling import sampled
from examples.options import Option
from keras_attention import (
    Attention,
    BahdanauAttention,
    BahdanauDecoder,
    BahdanauGRUCell,
    ContextAdd,
    ContextConcat,
)

TITLE = "RNNsearch: bidirectional GRU, additive attention, GRU decoder"
REFERENCE = "Bahdanau et al. 2015, arXiv 1409.0473"
PAPER = {"units": 1000, "embedding_dim": 620, "maxout_units": 500, "init_stddev": 0.01}
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
    "injection": Option(
        "mlp",
        "where the context enters: the update (mlp, as in the paper), the output (add), or both "
        "the output and what is remembered (concat)",
        str,
        ("mlp", "add", "concat"),
    ),
    "dropout": Option(0.0, "share dropped from embeddings, annotations and readout", fraction),
    "init_stddev": Option(
        None,
        "first weights normal with deviation X, in the attention X / 10 and v 0, recurrent "
        "matrices orthogonal; 0.01 in the paper (default: Keras')",
        positive_number,
    ),
    "scheduled_sampling": SAMPLING,
}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    maxout_units: int | None = None,
    attention: str = "additive",
    readout_state: str = "current",
    injection: str = "mlp",
    dropout: float = 0.0,
    init_stddev: float | None = None,
    scheduled_sampling: str | None = None,
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
        injection: "mlp", "add" or "concat"; see `ContextMLP`, `ContextAdd`, `ContextConcat`.
        dropout: Share dropped from embeddings, annotations and the maxout layer.
        init_stddev: First weights are drawn as `initial.draw_normal` says; None for Keras' own.
        scheduled_sampling: Scheduled sampling, see `examples.models.sampling`; None for none.
        seed: Optional int, the seed of the dropout and of what is drawn here.
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
    seed = None if seed is None else seed + 2
    decoder = BahdanauDecoder(
        target_vocabulary_size,
        embedding_dim,
        units,
        maxout_units,
        attention=mechanism,
        recurrent_cell=_cell(injection, units, dtype),
        readout_state=readout_state,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
        name="decoder",
    )
    decoder = sampled(decoder, scheduled_sampling, seed)
    return draw_normal(assembly.translator(encoder, decoder, "rnnsearch"), init_stddev, seed)


def _cell(injection, units, dtype):
    """Returns the decoder's cell, told a context of `2 * units`; None for the paper's."""
    if injection == "mlp":
        return None
    cell = BahdanauGRUCell(units, dtype=dtype, name="cell")
    if injection == "add":
        return ContextAdd(cell, 2 * units, dtype=dtype, name="injection")
    return ContextConcat(
        cell, 2 * units, "tanh", output_is_state=True, dtype=dtype, name="injection"
    )
