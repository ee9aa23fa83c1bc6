"""RNNsearch with several sources, Zoph and Knight 2016 (https://arxiv.org/abs/1601.00710) and
Libovický and Helcl 2017 (https://arxiv.org/abs/1704.06567).

an encoder of `examples.models.encoders.bidirectional_gru` for each source
the decoder of `keras_attention.BahdanauDecoder` with `MultiSourceAttention`

A source is one text, `ein hund <sep> un chien`; `python -m examples.data join` makes such files.
The decoder of Libovický and Helcl has two units a step, and attends between them.
"""

from typing import Annotated, Literal

import keras

from examples.commands.arguments import int_at_least
from examples.commands.options import Fraction
from examples.models import assembly
from examples.models.encoders import several_sources
from keras_attention import BahdanauDecoder, MultiSourceAttention

TITLE = "Multi-source: RNNsearch from several sources, flat or hierarchical attention"
REFERENCE = "Libovický and Helcl 2017, arXiv 1704.06567"


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    num_sources: Annotated[int, int_at_least(2)] = 2,
    units: int = 256,
    embedding_dim: int = 256,
    combination: Literal["flat", "hierarchical"] = "hierarchical",
    sentinel: bool = False,
    dropout: Fraction = 0.0,
    source_dropout: Fraction = 0.3,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the model as a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids, those of all sources.
        target_vocabulary_size: Number of target ids.
        num_sources: Sources in one text, separated by <sep>.
        units: Size of the decoder's state, of each encoder direction, of the attention.
        embedding_dim: Size of all embeddings.
        combination: One attention over the words of all sources (flat), or one for each source
            and one over their contexts (hierarchical).
        sentinel: Attend to the decoder's state in place of the sources, too.
        dropout: Fraction dropped from embeddings, annotations and readout.
        source_dropout: Fraction of the examples of which one source is hidden in training.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    encoder = several_sources.build(
        source_vocabulary_size,
        num_sources,
        units,
        embedding_dim,
        dropout,
        source_dropout,
        seed,
        dtype,
    )
    attention = MultiSourceAttention(
        units, num_sources, combination, sentinel, 2 * units, dtype=dtype, name="attention"
    )
    decoder = BahdanauDecoder(
        target_vocabulary_size,
        embedding_dim,
        units,
        attention=attention,
        dropout=dropout,
        seed=None if seed is None else seed + 2 * num_sources,
        dtype=dtype,
        name="decoder",
    )
    return assembly.translator(encoder, decoder, "multi_source")
