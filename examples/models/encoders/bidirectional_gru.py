"""The encoder of RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

h_j = [forward_j; backward_j], one embedding, two gated units       section 3.2
s_0 = tanh(W_s backward_1)                                          appendix A.2.2
"""

import keras

from keras_attention import BahdanauGRU, CounterDropout


def build(
    vocabulary_size, units, embedding_dim, dropout=0.0, seed=None, dtype=None, name="encoder"
):
    """Returns the encoder: source ids to `memory` and `initial_state`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of one direction; an annotation has twice as many.
        embedding_dim: Size of the source embedding.
        dropout: Fraction dropped from the embedding and from the annotations.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.
        name: Name of the model.

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
    return keras.Model(source, {"memory": memory, "initial_state": initial_state}, name=name)
