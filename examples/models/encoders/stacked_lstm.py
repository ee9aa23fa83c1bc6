"""The encoder of Seq2Seq, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215), and of Luong
et al. 2015 (https://arxiv.org/abs/1508.04025).

h^l_j = LSTM(h^{l-1}_j, h^l_{j-1}),  h^0_j = E x_j                  a layer each
memory = the states of the top layer, in the order of the source
initial_state = the last (h, c) of every layer

Reversed, it reads the last token first; padding stays where it is. A source read twice is a
source read again from the states of the first reading: the same as `x x` in a row, without the
rows that would be twice as long. Both ways, each layer is two of half the size, so that sizes are
those of one way.
"""

import keras

from keras_attention import CounterDropout, ReverseTokens, validation


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
    bidirectional=False,
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
        bidirectional: Whether each layer reads it both ways, with half of the units each.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, units)` and `initial_state`, for each layer from the bottom the list of
        h and c, each `(batch, units)`.

    Raises:
        ValueError: If it is bidirectional and `units` is odd, or it is reversed or read twice too.
    """
    if bidirectional:
        validation.check_int_at_least("stacked_lstm", "units", units, 2)
        if units % 2 or reverse or feed_twice:
            raise ValueError(
                "A bidirectional encoder expects even `units`, and a source that is neither "
                f"reversed nor fed twice. Received: units={units}, reverse={reverse}, "
                f"feed_twice={feed_twice}"
            )

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
    make_layer = _both_ways if bidirectional else _one_way
    stack = [make_layer(units, dtype, f"lstm_{index}") for index in range(layers)]
    last = [None] * layers
    for _ in range(2 if feed_twice else 1):
        states = embedded
        for index, layer in enumerate(stack):
            states = states if index == 0 else apply_dropout(states, index)
            states, *last[index] = layer(states, initial_state=last[index], mask=kept)
    if bidirectional:  # each direction's h and c: those of both beside each other
        join = keras.layers.Concatenate(dtype=dtype)
        last = [[join(pair) for pair in zip(one[:2], one[2:], strict=True)] for one in last]
    if reverse:
        states = ReverseTokens(dtype=dtype, name="source_order")(states)
    memory = apply_dropout(states, layers, "memory")
    return keras.Model(source, {"memory": memory, "initial_state": last}, name="encoder")


def _one_way(units, dtype, name=None):
    # Not keras.layers.LSTM: on a GPU it takes cuDNN, which XLA cannot compile.
    cell = keras.layers.LSTMCell(units, dtype=dtype)
    return keras.layers.RNN(cell, return_sequences=True, return_state=True, dtype=dtype, name=name)


def _both_ways(units, dtype, name):
    return keras.layers.Bidirectional(_one_way(units // 2, dtype), dtype=dtype, name=name)
