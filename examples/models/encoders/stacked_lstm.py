"""The encoder of Seq2Seq, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215), and of Luong
et al. 2015 (https://arxiv.org/abs/1508.04025).

h^l_j = LSTM(h^{l-1}_j, h^l_{j-1}),  h^0_j = E x_j                  a layer each
memory = the states of the top layer, in the order of the source
initial_state = the last (h, c) of every layer

Reversed, it reads the last token first; padding stays where it is. A source read twice is a
source read again from the states of the first reading: the same as `x x` in a row, without the
rows that would be twice as long.
"""

import keras

from keras_attention import CounterDropout, ReverseTokens


def build(
    vocabulary_size,
    units,
    embedding_dim,
    layers=1,
    reverse=False,
    feed_twice=False,
    dropout=0.0,
    seed=None,
    dtype=None,
):
    """Returns the encoder: source ids to `memory` and `initial_state`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of each layer.
        embedding_dim: Size of the source embedding.
        layers: Number of layers.
        reverse: Whether the source is read from its end, the EOS token first.
        feed_twice: Whether it is read twice.
        dropout: Fraction dropped from the embedding and from each layer's states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, units)` and `initial_state`, for each layer from the bottom the list of
        h and c, each `(batch, units)`.
    """

    def apply_dropout(tensor, number, name=None):
        number = None if seed is None else seed + number
        return CounterDropout(dropout, seed=number, dtype=dtype, name=name)(tensor)

    source = keras.Input([None], dtype="int32", name="source")
    embedded = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, dtype=dtype, name="source_embedding"
    )(source)
    embedded = apply_dropout(embedded, 0)
    if reverse:
        embedded = ReverseTokens(dtype=dtype, name="reverse")(embedded)
    # Keras hands a layer no attached mask where it is called with a state too.
    kept = keras.ops.not_equal(source, 0)
    stack = [_layer(units, dtype, index) for index in range(layers)]
    last = [None] * layers
    for _ in range(2 if feed_twice else 1):
        states = embedded
        for index, layer in enumerate(stack):
            states = states if index == 0 else apply_dropout(states, index)
            states, *last[index] = layer(states, initial_state=last[index], mask=kept)
    if reverse:
        states = ReverseTokens(dtype=dtype, name="source_order")(states)
    memory = apply_dropout(states, layers, "memory")
    return keras.Model(source, {"memory": memory, "initial_state": last}, name="encoder")


def _layer(units, dtype, index):
    # Not keras.layers.LSTM: on a GPU it takes cuDNN, which XLA cannot compile.
    cell = keras.layers.LSTMCell(units, dtype=dtype)
    return keras.layers.RNN(
        cell, return_sequences=True, return_state=True, dtype=dtype, name=f"lstm_{index}"
    )
