"""Seq2Seq, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215).

    the encoder of `examples.models.encoders.stacked_lstm`               section 2
    the decoder of `keras_attention.Seq2SeqDecoder`                      section 2

The source is reversed, the states of all layers are handed over, and the decoder reads the end id
first. The paper: 4 layers of 1000 cells, embeddings of 1000, vocabularies of 160,000 and 80,000,
all weights from U(-0.08, 0.08), SGD with a rate of 0.7 halved every half epoch after 5, norms
clipped at 5, batches of 128. The defaults here suit a laptop; `PAPER` holds the paper's.
"""

import keras

from examples.commands.options import Fraction, PositiveFloat
from examples.models import assembly
from examples.models.encoders import stacked_lstm
from examples.models.initial import draw_uniform
from examples.models.sampling import ScheduledSamplingText, add_scheduled_sampling
from keras_attention import Seq2SeqDecoder

TITLE = "Seq2Seq: stacked LSTMs, a reversed source, no attention"
REFERENCE = "Sutskever et al. 2014, arXiv 1409.3215"
PAPER = {"units": 1000, "embedding_dim": 1000, "layers": 4, "init_range": 0.08}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    layers: int = 4,
    reverse: bool = True,
    feed_twice: bool = False,
    dropout: Fraction = 0.0,
    init_range: PositiveFloat | None = None,
    scheduled_sampling: ScheduledSamplingText | None = None,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns Seq2Seq as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of each layer.
        embedding_dim: Size of both embeddings.
        layers: LSTM layers of the encoder, and of the decoder.
        reverse: Read the source from its end.
        feed_twice: Read the source twice.
        dropout: Fraction dropped from embeddings and between layers.
        init_range: Initial weights from U(-X, X); 0.08 in the paper; Keras' own by default.
        scheduled_sampling: Scheduled sampling, constant:P, linear:SLOPE[,MINIMUM[,START]],
            exponential:BASE or inverse-sigmoid:SPEED, the probability of true tokens; the others
            are sampled, with :argmax behind it the most probable; all are true by default.
        seed: Optional int, the seed of the dropout and of what is drawn here.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    encoder = stacked_lstm.build(
        source_vocabulary_size,
        units,
        embedding_dim,
        layers,
        reverse,
        feed_twice,
        dropout,
        seed,
        dtype,
    )
    seed = None if seed is None else seed + layers + 1
    decoder = Seq2SeqDecoder(
        target_vocabulary_size,
        embedding_dim,
        units,
        layers,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
        name="decoder",
    )
    decoder = add_scheduled_sampling(decoder, scheduled_sampling, seed)
    return draw_uniform(assembly.translator(encoder, decoder, "seq2seq"), init_range, seed)
