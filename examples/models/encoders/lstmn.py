"""The LSTMN as an encoder, Cheng et al. 2016 (https://arxiv.org/abs/1601.06733).

a_i = v . tanh(W_h h_i + W_x x_t + W_t h~_{t-1}),  s = softmax(a)   equations 4 and 5
(h~_t, c~_t) = sum_i s_i (h_i, c_i)                                 equation 6
h_t = LSTM(x_t, (h~_t, c~_t))                                       equations 7 to 9

A layer reads the tape of its own states, and the states below as its inputs.
"""

import keras

from keras_attention import LSTMN, CounterDropout


def build(vocabulary_size, units, embedding_dim, layers=1, dropout=0.0, seed=None, dtype=None):
    """Returns the encoder: source ids to `memory`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of each layer, and of its attention.
        embedding_dim: Size of the source embedding.
        layers: Number of layers.
        dropout: Fraction dropped from the embedding and from each layer's states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, units)`.
    """
    source = keras.Input([None], dtype="int32", name="source")
    states = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, dtype=dtype, name="source_embedding"
    )(source)
    states = CounterDropout(dropout, seed=seed, dtype=dtype)(states)
    for index in range(layers):
        states = LSTMN(units, dtype=dtype, name=f"lstmn_{index}")(states)
        number = None if seed is None else seed + 1 + index
        states = CounterDropout(dropout, seed=number, dtype=dtype)(states)
    return keras.Model(source, {"memory": states}, name="encoder")
