"""The RNN encoder-decoder, Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

    the encoder of `examples.models.encoders.forward_gru`                appendix A.1.1
    the decoder of `keras_attention.ChoDecoder`                      appendix A.1.2

One vector sums up the source and is told to the decoder at every step. The paper scores phrase
pairs with it (`python -m examples score`): units 1000, embedding 100, maxout 500, vocabulary
15,000, recurrent matrices orthogonal, all other weights from N(0, 0.01^2), biases 0, Adadelta,
batches of 64. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.arguments import fraction, positive_number
from examples.models import assembly
from examples.models.encoders import forward_gru
from examples.models.initial import draw_normal
from examples.models.sampling import OPTION as SAMPLING
from examples.models.sampling import sampled
from examples.options import Option
from keras_attention import ChoDecoder

TITLE = "RNN encoder-decoder: one vector sums up the source"
REFERENCE = "Cho et al. 2014, arXiv 1406.1078"
PAPER = {"units": 1000, "embedding_dim": 100, "maxout_units": 500, "init_stddev": 0.01}
OPTIONS = {
    "units": Option(512, "size of both states and of the summary"),
    "embedding_dim": Option(256, "size of both embeddings"),
    "maxout_units": Option(None, "size of the maxout layer (default: half of --units)"),
    "reset_covers_context": Option(
        True, "the reset gate covers the summary, as in the paper; not so in the authors' code"
    ),
    "output_rank": Option(None, "inner size of a factored output matrix (default: a whole one)"),
    "reverse": Option(False, "read the source from its end"),
    "dropout": Option(0.0, "share dropped from embeddings, states and readout", fraction),
    "init_stddev": Option(
        None,
        "first weights normal with deviation X, recurrent matrices orthogonal; 0.01 in the paper "
        "(default: Keras')",
        positive_number,
    ),
    "scheduled_sampling": SAMPLING,
}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 512,
    embedding_dim: int = 256,
    maxout_units: int | None = None,
    reset_covers_context: bool = True,
    output_rank: int | None = None,
    reverse: bool = False,
    dropout: float = 0.0,
    init_stddev: float | None = None,
    scheduled_sampling: str | None = None,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the RNN encoder-decoder as a functional model from `source`, `target` to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of both states and of the summary.
        embedding_dim: Size of both embeddings.
        maxout_units: Size of the maxout layer; half of `units` by default.
        reset_covers_context: See `ChoDecoder`.
        output_rank: Inner size of a factored output matrix; None for a whole one.
        reverse: Whether the source is read from its end.
        dropout: Share dropped from embeddings, states and the maxout layer.
        init_stddev: First weights are drawn as `initial.draw_normal` says; None for Keras' own.
        scheduled_sampling: Scheduled sampling, see `examples.models.sampling`; None for none.
        seed: Optional int, the seed of the dropout and of what is drawn here.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    encoder = forward_gru.build(
        source_vocabulary_size, units, embedding_dim, reverse, dropout, seed, dtype
    )
    seed = None if seed is None else seed + 2
    decoder = ChoDecoder(
        target_vocabulary_size,
        embedding_dim,
        units,
        maxout_units=maxout_units,
        reset_covers_context=reset_covers_context,
        output_rank=output_rank,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
        name="decoder",
    )
    decoder = sampled(decoder, scheduled_sampling, seed)
    return draw_normal(
        assembly.translator(encoder, decoder, "rnn_encoder_decoder"), init_stddev, seed
    )
