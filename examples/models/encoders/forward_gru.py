"""The encoder of the RNN encoder-decoder, Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

h_j = GRU(e(x_j), h_{j-1})                                          appendix A.1.1

The summary tanh(V h_S) is the decoder's to make. The paper blends z * h + (1 - z) * q, the unit
here the other way round: with W_z and U_z negated they are one, and both begin around 0.
"""

import keras

from keras_attention import BahdanauGRU, CounterDropout, ReverseTokens


def build(vocabulary_size, units, embedding_dim, reverse=False, dropout=0.0, seed=None, dtype=None):
    """Returns the encoder: source ids to `memory`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of the state.
        embedding_dim: Size of the source embedding.
        reverse: Whether the source is read from its end; the states then stand in the order
            of reading, so that the last one has read all in either case.
        dropout: Fraction dropped from the embedding and from the states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, units)`.
    """
    source = keras.Input([None], dtype="int32", name="source")
    embedded = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, dtype=dtype, name="source_embedding"
    )(source)
    embedded = CounterDropout(dropout, seed=seed, dtype=dtype)(embedded)
    if reverse:
        embedded = ReverseTokens(dtype=dtype, name="reverse")(embedded)
    states = BahdanauGRU(units, return_sequences=True, dtype=dtype, name="states")(embedded)
    seed = None if seed is None else seed + 1
    memory = CounterDropout(dropout, seed=seed, dtype=dtype, name="memory")(states)
    return keras.Model(source, {"memory": memory}, name="encoder")
