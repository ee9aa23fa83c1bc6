"""An LSTM as a language model: the LSTMN without its attention.

It has what `lstmn` has, down to the first values of its weights (a forget gate's bias too begins
at 0), but reads its last state where the LSTMN reads a mixture of all earlier ones. Cheng et al.
2016 (https://arxiv.org/abs/1601.06733) compare with such a model in table 1.
"""

import keras

from examples.commands.options import Fraction
from examples.models import language_model

TITLE = "LSTM language model: the control of the LSTMN"
REFERENCE = "Cheng et al. 2016, arXiv 1601.06733, table 1"


def build(
    vocabulary_size: int,
    units: int = 256,
    embedding_dim: int = 256,
    layers: int = 1,
    dropout: Fraction = 0.4,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `ids` to `logits`.

    Args:
        vocabulary_size: Number of ids; 0 is padding.
        units: Size of each layer.
        embedding_dim: Size of the embedding.
        layers: Number of layers, each reading the states of the one below.
        dropout: Fraction dropped from the embedding and from each layer's states.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """

    def layer(states, number):
        policy = keras.dtype_policies.get(dtype)
        has_qr = policy.variable_dtype in ("float32", "float64")  # an orthogonal draw needs it
        cell = keras.layers.LSTMCell(
            units,
            recurrent_initializer="orthogonal" if has_qr else "glorot_uniform",
            unit_forget_bias=False,
            dtype=policy,
        )
        recurrence = keras.layers.RNN(
            cell, return_sequences=True, dtype=policy, name=f"lstm_{number}"
        )
        return recurrence(states), None

    return language_model.language_model(
        "lstm_language_model",
        layer,
        vocabulary_size,
        embedding_dim,
        layers,
        dropout,
        seed,
        dtype,
    )
