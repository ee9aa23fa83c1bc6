"""RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    the encoder of `examples.models.encoders.bidirectional_gru`          section 3.2
    the decoder of `keras_attention.BahdanauDecoder`                     section 3.1

The paper: units 1000, embedding 620, maxout 500, vocabulary 30,000, recurrent matrices orthogonal,
W_a and U_a from N(0, 0.001^2), v_a and biases 0, all other weights from N(0, 0.01^2), Adadelta,
batches of 80. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

from typing import Annotated, Literal

import keras

from examples.commands.arguments import int_at_least
from examples.commands.options import Fraction, PositiveFloat
from examples.models import assembly
from examples.models.copying import add_copying, count_decoder_ids
from examples.models.encoders import bidirectional_gru
from examples.models.initial import draw_normal
from examples.models.sampling import ScheduledSamplingText, add_scheduled_sampling
from keras_attention import (
    Attention,
    AttentionalVectorCell,
    BahdanauAttention,
    BahdanauDecoder,
    BahdanauGRUCell,
    ContextAddCell,
)

TITLE = "RNNsearch: bidirectional GRU, additive attention, GRU decoder"
REFERENCE = "Bahdanau et al. 2015, arXiv 1409.0473"
PAPER = {"units": 1000, "embedding_dim": 620, "maxout_units": 500, "init_stddev": 0.01}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    maxout_units: int | None = None,
    attention: Literal["additive", "none"] = "additive",
    readout_state: Literal["current", "previous"] = "current",
    injection: Literal["mlp", "add", "concat"] = "mlp",
    dropout: Fraction = 0.0,
    init_stddev: PositiveFloat | None = None,
    scheduled_sampling: ScheduledSamplingText | None = None,
    copied_words: Annotated[int, int_at_least(0)] = 0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns RNNsearch as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of the decoder's state, of an encoder direction, of the attention.
        embedding_dim: Size of both embeddings.
        maxout_units: Size of the maxout layer; half of --units by default.
        attention: None is the baseline that reads the mean annotation.
        readout_state: Read out the new state or the one before.
        injection: Where the context enters: the update (mlp, as in the paper), the output (add), or
            both the output and what is remembered (concat).
        dropout: Fraction dropped from embeddings, annotations and readout.
        init_stddev: Initial weights normal with this standard deviation, in the attention with a
            tenth of it and v 0, recurrent matrices orthogonal; 0.01 in the paper; Keras' own by
            default.
        scheduled_sampling: Scheduled sampling, constant:P, linear:SLOPE[,MINIMUM[,START]],
            exponential:BASE or inverse-sigmoid:SPEED, the probability of true tokens; the others
            are sampled, with :argmax behind it the most probable; all are true by default.
        copied_words: Unknown words of one source that can be copied into the output, by a
            pointer-generator; 0 for none.
        seed: Optional int, the seed of the dropout and of what is drawn here.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    if attention not in ("additive", "none"):
        raise ValueError(
            "rnnsearch expects `attention` to be 'additive', or 'none' for the baseline. "
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
        count_decoder_ids(target_vocabulary_size, copied_words),
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
    decoder = add_copying(decoder, copied_words, scheduled_sampling)
    decoder = add_scheduled_sampling(decoder, scheduled_sampling, seed)
    return draw_normal(assembly.translator(encoder, decoder, "rnnsearch"), init_stddev, seed)


def _cell(injection, units, dtype):
    """Returns the decoder's cell, which reads a context of `2 * units`; None for the paper's."""
    if injection == "mlp":
        return None
    cell = BahdanauGRUCell(units, dtype=dtype, name="cell")
    if injection == "add":
        return ContextAddCell(cell, 2 * units, dtype=dtype, name="injection")
    return AttentionalVectorCell(
        cell, 2 * units, "tanh", output_is_state=True, dtype=dtype, name="injection"
    )
