"""Luong's attention, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    the encoder of `examples.models.encoders.stacked_lstm`               section 3
    the decoder of `keras_attention.LuongDecoder`                        sections 3.1 to 3.3

The paper: 4 layers of 1000 cells, embeddings of 1000, vocabularies of 50,000, a reversed source,
all weights from U(-0.1, 0.1), SGD with a rate of 1 halved every epoch after 5, norms clipped at 5,
batches of 128, D = 10. The defaults here suit a laptop; `PAPER` holds the paper's. Alignments and
windows count positions in the order of the source, reversed or not.
"""

from typing import Annotated, Literal

import keras

from examples.commands.arguments import int_at_least
from examples.commands.options import Fraction, PositiveFloat
from examples.models import assembly
from examples.models.copying import add_copying, count_decoder_ids
from examples.models.encoders import stacked_lstm
from examples.models.initial import draw_uniform
from examples.models.sampling import ScheduledSamplingText, add_scheduled_sampling
from keras_attention import LocalAttention, LuongAttention, LuongDecoder

TITLE = "Luong: stacked LSTMs, attention after the update, global or local"
REFERENCE = "Luong et al. 2015, arXiv 1508.04025"
PAPER = {
    "units": 1000,
    "embedding_dim": 1000,
    "layers": 4,
    "scorer": "general",
    "local_attention": "predictive",
    "reverse": True,
    "init_range": 0.1,
}
BELONGS_TO = {
    "window": ("local_attention", ("monotonic", "predictive")),
    "positions": ("scorer", ("location",)),
}


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    layers: int = 2,
    scorer: Literal["dot", "general", "concat", "location"] = "dot",
    local_attention: Literal["global", "monotonic", "predictive"] = "global",
    window: Annotated[int, int_at_least(3)] = 21,
    positions: int = 256,
    input_feeding: bool = True,
    reverse: bool = False,
    bidirectional: bool = False,
    dropout: Fraction = 0.0,
    init_range: PositiveFloat | None = None,
    scheduled_sampling: ScheduledSamplingText | None = None,
    copied_words: Annotated[int, int_at_least(0)] = 0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns Luong's model as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        units: Size of each layer and of the attentional vector.
        embedding_dim: Size of both embeddings.
        layers: LSTM layers of the encoder, and of the decoder.
        scorer: How a state is compared with the source's; trained with Adam, the others may end up
            reading one position alone, where dot learns to attend (docs/results.md).
        local_attention: Read all of the source, a window that moves on (local-m), or one whose
            place is predicted (local-p).
        window: Positions of the window of a local attention, odd: 2 D + 1.
        positions: Source positions that --scorer location knows.
        input_feeding: Feed the attentional vector to the next step.
        reverse: Read the source from its end.
        bidirectional: Read the source both ways, each with half of --units.
        dropout: Fraction dropped from embeddings, between layers and from the top states.
        init_range: Initial weights from U(-X, X); 0.1 in the paper; Keras' own by default.
        scheduled_sampling: Scheduled sampling, constant:P, linear:SLOPE[,MINIMUM[,START]],
            exponential:BASE or inverse-sigmoid:SPEED, the probability of true tokens; the others
            are sampled, with :argmax behind it the most probable; all are true by default.
        copied_words: Unknown words of one source that can be copied into the output, by a
            pointer-generator; 0 for none.
        seed: Optional int, the seed of the dropout and of what is drawn here.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Raises:
        ValueError: If it is bidirectional with odd `units`, or reversed too.
    """
    encoder = stacked_lstm.build(
        source_vocabulary_size,
        units,
        embedding_dim,
        layers,
        reverse,
        bidirectional=bidirectional,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
    )
    seed = None if seed is None else seed + layers + 1
    decoder = LuongDecoder(
        count_decoder_ids(target_vocabulary_size, copied_words),
        embedding_dim,
        units,
        layers,
        attention=_attention(scorer, local_attention, window, positions, dtype),
        input_feeding=input_feeding,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
        name="decoder",
    )
    decoder = add_copying(decoder, copied_words, scheduled_sampling)
    decoder = add_scheduled_sampling(decoder, scheduled_sampling, seed)
    return draw_uniform(assembly.translator(encoder, decoder, "luong"), init_range, seed)


def _attention(scorer, local_attention, window, positions, dtype):
    """Returns the mechanism; a local one scores with the same scorer inside of its window."""
    max_length = positions if scorer == "location" else None
    attention = LuongAttention(scorer, max_length=max_length, dtype=dtype, name="attention")
    if local_attention == "global":
        return attention
    return LocalAttention(window, local_attention, attention.scorer, dtype=dtype, name="attention")
