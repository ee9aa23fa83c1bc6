"""Any encoder before any decoder: the encoders and decoders of the other models, recombined.

    memory, mask = encoder(source)              one of `ENCODERS`
    s_0  = tanh(W mean(memory))                 for a decoder that begins from a state
    logits = decoder(target, memory, s_0)       one of `DECODERS`

Only the memory crosses from one to the other, so that any pair fits: a CNN before an RNN, an LSTMN
before a Transformer. A new encoder or decoder is a function and a row in its table.
"""

import dataclasses
from typing import Literal

import keras

from examples.commands.options import Fraction
from examples.models import assembly
from examples.models.encoders import (
    bidirectional_gru,
    forward_gru,
    gated_convolutional,
    lstmn,
    stacked_lstm,
    transformer,
)
from examples.models.sampling import ScheduledSamplingText, add_scheduled_sampling
from keras_attention import (
    Attention,
    BahdanauDecoder,
    ChoDecoder,
    ConvDecoder,
    LuongDecoder,
    Seq2SeqDecoder,
    TransformerDecoder,
)

TITLE = "Mixed: any encoder before any decoder"
REFERENCE = "Bahdanau, Luong, Cheng, Gehring, Vaswani et al."


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What all encoders and decoders are made from; see the arguments of `build`."""

    units: int
    embedding_dim: int
    layers: int
    heads: int
    dropout: float
    dtype: object

    def of(self, *names):
        """Returns the named ones as a dict of arguments."""
        return {name: getattr(self, name) for name in names}

    @property
    def common(self):
        return self.of("dropout", "dtype")

    @property
    def feed_forward_dim(self):
        return 4 * self.units

    @property
    def convolutions(self):
        return [(self.units, 3)] * self.layers


ENCODERS = {
    "birnn": lambda vocabulary, sizes, seed: bidirectional_gru.build(
        vocabulary, **sizes.of("units", "embedding_dim"), seed=seed, **sizes.common
    ),
    "gru": lambda vocabulary, sizes, seed: forward_gru.build(
        vocabulary, **sizes.of("units", "embedding_dim"), seed=seed, **sizes.common
    ),
    "lstm": lambda vocabulary, sizes, seed: stacked_lstm.build(
        vocabulary, **sizes.of("units", "embedding_dim", "layers"), seed=seed, **sizes.common
    ),
    "lstmn": lambda vocabulary, sizes, seed: lstmn.build(
        vocabulary, **sizes.of("units", "embedding_dim", "layers"), seed=seed, **sizes.common
    ),
    "cnn": lambda vocabulary, sizes, seed: gated_convolutional.build(
        vocabulary,
        **sizes.of("embedding_dim", "convolutions"),
        with_embeddings=False,
        seed=seed,
        **sizes.common,
    ),
    "transformer": lambda vocabulary, sizes, seed: transformer.build(
        vocabulary,
        sizes.units,
        **sizes.of("layers", "heads", "feed_forward_dim"),
        seed=seed,
        **sizes.common,
    ),
}
DECODERS = {
    "rnnsearch": lambda vocabulary, sizes, **options: BahdanauDecoder(
        vocabulary, sizes.embedding_dim, sizes.units, **options
    ),
    "luong": lambda vocabulary, sizes, **options: LuongDecoder(
        vocabulary, sizes.embedding_dim, sizes.units, sizes.layers, **options
    ),
    "summary": lambda vocabulary, sizes, **options: ChoDecoder(
        vocabulary, sizes.embedding_dim, sizes.units, **options
    ),
    "seq2seq": lambda vocabulary, sizes, **options: Seq2SeqDecoder(
        vocabulary, sizes.embedding_dim, sizes.units, sizes.layers, **options
    ),
    "transformer": lambda vocabulary, sizes, **options: TransformerDecoder(
        vocabulary, sizes.units, sizes.layers, sizes.heads, sizes.feed_forward_dim, **options
    ),
    "conv": lambda vocabulary, sizes, **options: ConvDecoder(
        vocabulary, sizes.embedding_dim, sizes.convolutions, source_embeddings=False, **options
    ),
}
#: Decoders that begin from a state: all others find in the memory what they begin from.
BEGINNING = (BahdanauDecoder, LuongDecoder, Seq2SeqDecoder)


def build(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    encoder: Literal[tuple(ENCODERS)] = "cnn",
    decoder: Literal[tuple(DECODERS)] = "rnnsearch",
    units: int = 256,
    embedding_dim: int = 256,
    layers: int = 2,
    heads: int = 4,
    dropout: Fraction = 0.0,
    scheduled_sampling: ScheduledSamplingText | None = None,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `source` and `target` ids to logits.

    Args:
        source_vocabulary_size: Number of source ids.
        target_vocabulary_size: Number of target ids.
        encoder: Encoder of the source.
        decoder: Decoder of the target.
        units: Size of states and layers on both sides.
        embedding_dim: Size of both embeddings; a Transformer's is --units.
        layers: Layers of an encoder or decoder that has several.
        heads: Heads of a Transformer, a divisor of --units.
        dropout: Fraction dropped, where each drops.
        scheduled_sampling: Scheduled sampling, constant:P, linear:SLOPE[,MINIMUM[,START]],
            exponential:BASE or inverse-sigmoid:SPEED, the probability of true tokens; the others
            are sampled, with :argmax behind it the most probable; all are true by default.
        seed: Optional int, the seed of the dropout and of what is drawn here.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    sizes = Sizes(units, embedding_dim, layers, heads, dropout, dtype)
    reader = ENCODERS[encoder](source_vocabulary_size, sizes, seed)
    seed = None if seed is None else seed + 100
    writer = DECODERS[decoder](
        target_vocabulary_size, sizes, dropout=dropout, seed=seed, dtype=dtype, name="decoder"
    )
    begins = isinstance(writer, BEGINNING)
    state_size = writer.recurrence.adapter.state_size if begins else None
    reader = _only_memory(reader, state_size, dtype)
    return assembly.translator(
        reader, add_scheduled_sampling(writer, scheduled_sampling, seed), "mixed"
    )


def _only_memory(encoder, state_size, dtype):
    """Returns an encoder without what its own decoder begins from, and with what this one does."""
    source = keras.Input([None], dtype="int32", name="source")
    encoded = {"memory": encoder(source)["memory"]}
    if state_size is not None:
        mean = Attention("uniform", dtype=dtype, name="mean")(
            encoded["memory"][:, 0], encoded["memory"]
        )
        encoded["initial_state"] = keras.tree.map_structure(
            lambda size: keras.layers.Dense(size, activation="tanh", dtype=dtype)(mean), state_size
        )
    return keras.Model(source, encoded, name="encoder")
