"""What language models share: the tokens so far in, the logits of the next one out.

    p(y_t | y_1 .. y_{t-1}) = softmax(W h_t + b),  h_t = a recurrence over the embeddings

What the recurrence is, each model says in a layer of its own.
"""

from collections.abc import Callable

import keras

from examples.commands.options import Fraction
from keras_attention import CounterDropout


def language_model(
    name: str,
    layer: Callable,
    vocabulary_size: int,
    embedding_dim: int,
    layers: int,
    dropout: Fraction,
    seed: int | None,
    dtype,
) -> keras.Model:
    """Returns a functional model from `ids` to `logits` and, where a layer has them, `weights`.

    Args:
        name: Of the model.
        layer: Function `(states, number) -> (states, weights or None)`, one recurrent layer.
        vocabulary_size: Number of ids.
        embedding_dim: Size of the embedding.
        layers: Their number.
        dropout: Share dropped from the embedding and from each layer's states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A model from `{"ids": (batch, time)}`, the start id and the tokens so far, to `{"logits":
        (batch, time, vocabulary_size)}` and, with attention, `"weights": (batch, layers, time,
        time + 1)`.
    """
    ids = keras.Input([None], dtype="int32", name="ids")
    embedding = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, dtype=dtype, name="embedding"
    )
    states, weights = embedding(ids), []
    states = CounterDropout(dropout, seed=seed, dtype=dtype)(states)
    for number in range(layers):
        states, of_layer = layer(states, number)
        weights += [] if of_layer is None else [of_layer]
        states = CounterDropout(
            dropout, seed=None if seed is None else seed + 1 + number, dtype=dtype
        )(states)
    logits = keras.layers.Dense(vocabulary_size, dtype=dtype, name="output")(states)
    outputs = {"logits": keras.layers.Activation("linear", dtype="float32", name="logits")(logits)}
    if weights:
        outputs["weights"] = keras.ops.cast(keras.ops.stack(weights, axis=1), "float32")
    return keras.Model({"ids": ids}, outputs, name=name)
