"""The LSTMN as a language model, Cheng et al. 2016 (https://arxiv.org/abs/1601.06733).

    a_i = v . tanh(W_h h_i + W_x x_t + W_t h~_{t-1}),  s = softmax(a)   equations 4 and 5
    (h~_t, c~_t) = sum_i s_i (h_i, c_i)                                 equation 6
    h_t = LSTM(x_t, (h~_t, c~_t))                                       equations 7 to 9

Where an LSTM has one state, it has a tape of all earlier ones and reads a mixture of them. A
layer reads the tape of its own states, and the states below as its inputs. The baseline without
attention is `lstm_language_model`.
"""

import keras

from examples.commands.options import Fraction
from examples.models import language_model
from keras_attention import LSTMN

TITLE = "LSTMN: a language model that attends to its own earlier states"
REFERENCE = "Cheng et al. 2016, arXiv 1601.06733"


def build(
    vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    layers: int = 1,
    dropout: Fraction = 0.4,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `ids` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids; 0 is padding.
        units: Size of each layer, and of its attention.
        embedding_dim: Size of the embedding.
        layers: Number of layers, each reading the states of the one below.
        dropout: Fraction dropped from the embedding and from each layer's states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"ids": (batch, time)}`, the start id and the tokens so far, to `{"logits":
        (batch, time, vocabulary_size), "weights": (batch, layers, time, time + 1)}`: slot 0 of
        the weights is the empty state before the first step, slot i + 1 the state of step i.
    """

    def layer(states, number):
        attention = LSTMN(units, dtype=dtype, name=f"lstmn_{number}")
        return attention(states, return_attention_scores=True)

    return language_model.language_model(
        "lstmn", layer, vocabulary_size, embedding_dim, layers, dropout, seed, dtype
    )
