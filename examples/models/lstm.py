"""An LSTM without a memory, what Graves et al. 2014 (https://arxiv.org/abs/1410.5401) compare
their machine with: three layers of 256 units on copying, and of similar sizes elsewhere.
"""

import keras

TITLE = "LSTM: the baseline of the Neural Turing Machine"
REFERENCE = "Graves et al. 2014, arXiv 1410.5401, table 3"


def build(
    input_dim: int,
    output_dim: int,
    units: int = 256,
    layers: int = 3,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `inputs` `(batch, time, input_dim)` to logits.

    Args:
        input_dim: Channels of the inputs.
        output_dim: Channels of the outputs.
        units: Size of each layer.
        layers: Number of layers.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    inputs = keras.Input([None, input_dim], name="inputs")
    hidden = inputs
    for number in range(layers):
        cell = keras.layers.LSTMCell(units, dtype=dtype)
        hidden = keras.layers.RNN(
            cell, return_sequences=True, dtype=dtype, name=f"lstm_{number + 1}"
        )(hidden)
    logits = keras.layers.Dense(output_dim, dtype=dtype, name="logits")(hidden)
    return keras.Model({"inputs": inputs}, logits, name="lstm")
