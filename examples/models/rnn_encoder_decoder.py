"""The RNN encoder-decoder, Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

    the encoder of `examples.models.encoders.forward_gru`                appendix A.1.1
    the decoder of `keras_attention.ChoDecoder`                      appendix A.1.2

One vector sums up the source and is an input of the decoder at every step. The paper scores phrase
pairs with it (`python -m examples score`): units 1000, embedding 100, maxout 500, vocabulary
15,000, recurrent matrices orthogonal, all other weights from N(0, 0.01^2), biases 0, Adadelta,
batches of 64. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.options import Fraction, PositiveFloat
from examples.models import assembly
from examples.models.encoders import forward_gru
from examples.models.initial import draw_normal
from examples.models.sampling import ScheduledSamplingText, add_scheduled_sampling
from keras_attention import ChoDecoder

TITLE = "RNN encoder-decoder: one vector sums up the source"
REFERENCE = "Cho et al. 2014, arXiv 1406.1078"
PAPER = {"units": 1000, "embedding_dim": 100, "maxout_units": 500, "init_stddev": 0.01}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 512,
    embedding_dim: int = 256,
    maxout_units: int | None = None,
    reset_covers_context: bool = True,
    output_rank: int | None = None,
    reverse: bool = False,
    dropout: Fraction = 0.0,
    init_stddev: PositiveFloat | None = None,
    scheduled_sampling: ScheduledSamplingText | None = None,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the RNN encoder-decoder as a functional model from `source`, `target` to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of both states and of the summary.
        embedding_dim: Size of both embeddings.
        maxout_units: Size of the maxout layer; half of --units by default.
        reset_covers_context: The reset gate covers the summary, as in the paper; not so in the
            authors' code.
        output_rank: Inner size of a factored output matrix; a whole one by default.
        reverse: Read the source from its end.
        dropout: Fraction dropped from embeddings, states and readout.
        init_stddev: Initial weights normal with this standard deviation, recurrent matrices
            orthogonal; 0.01 in the paper; Keras' own by default.
        scheduled_sampling: Scheduled sampling, constant:P, linear:SLOPE[,MINIMUM[,START]],
            exponential:BASE or inverse-sigmoid:SPEED, the probability of true tokens; the others
            are sampled, with :argmax behind it the most probable; all are true by default.
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
    decoder = add_scheduled_sampling(decoder, scheduled_sampling, seed)
    return draw_normal(
        assembly.translator(encoder, decoder, "rnn_encoder_decoder"), init_stddev, seed
    )
