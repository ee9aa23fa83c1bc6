"""An encoder of RNNsearch for each part of a source, as one memory.

h_j^(k) = [forward_j; backward_j], each source with its own embedding and units
s_0 = tanh(W [s_0^(1); ...; s_0^(K)]), Zoph and Knight 2016 (https://arxiv.org/abs/1601.00710), 3.1

The separator ends the source before it, as the EOS token ends the last one. In training some
sources are hidden (`HideSource`): attention would read only the one that it learned first.
"""

import keras
from keras import ops

from examples.models.encoders import bidirectional_gru
from keras_attention import ConcatenateSources, SplitSources

SEPARATOR_ID = 4  # the first symbol of a tokenizer, behind the special tokens


@keras.saving.register_keras_serializable(package="examples")
class HideSource(keras.layers.Layer):
    """Hides one source, chosen at random, of a fraction of the examples of a training batch.

    Attention to several sources soon reads only the one that it learned first: on Multi30k 1.0 of
    the weights on German and none on French.

    Args:
        rate: Fraction of the examples that lose a source.
        seed: Optional int.

    Call arguments:
        sources: List of the ids `(batch, length)` of each source.
        training: Whether sources are hidden.

    Returns:
        A list of the same shapes.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, sources, training=None):
        if not training or not self.rate:
            return sources
        batch = ops.shape(sources[0])[0]
        draws = keras.random.uniform((batch, 1), seed=self.seed_generator)
        # Beyond the last source for the examples that keep all.
        hidden = ops.floor(draws * (len(sources) / self.rate))
        return [ops.where(ops.equal(hidden, n), 0, ids) for n, ids in enumerate(sources)]

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def build(
    vocabulary_size,
    num_sources,
    units,
    embedding_dim,
    dropout=0.0,
    source_dropout=0.0,
    seed=None,
    dtype=None,
):
    """Returns the encoder: source ids with separators to `memory` and `initial_state`.

    A source that a text does not have is fully masked; all text behind the last separator that is
    expected belongs to the last source.

    Args:
        vocabulary_size: Number of source ids, those of all sources; 0 is padding and masked.
        num_sources: Number of sources.
        units, embedding_dim, dropout, seed, dtype: As in `bidirectional_gru`.
        source_dropout: The `rate` of `HideSource`.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`, that of
        `ConcatenateSources`, and `initial_state` `(batch, units)`.
    """
    ids = keras.Input([None], dtype="int32", name="source")
    sources = SplitSources(num_sources, SEPARATOR_ID)(ids)
    if source_dropout:
        sources = HideSource(source_dropout, seed)(sources)
    memories, masks, states = [], [], []
    for index, own in enumerate(sources):
        part = bidirectional_gru.build(
            vocabulary_size,
            units,
            embedding_dim,
            dropout,
            None if seed is None else seed + 2 * index,
            dtype,
            name=f"encoder_{index}",
        )
        encoded = part(own)
        memories.append(encoded["memory"])
        masks.append(ops.not_equal(own, 0))
        states.append(encoded["initial_state"])
    memory = ConcatenateSources(shared_positions=True, dtype=dtype)(memories, mask=masks)
    initial_state = keras.layers.Dense(units, activation="tanh", dtype=dtype, name="initial_state")(
        keras.layers.Concatenate(dtype=dtype)(states)
    )
    return keras.Model(ids, {"memory": memory, "initial_state": initial_state}, name="encoder")
