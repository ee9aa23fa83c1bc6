"""A stack of LSTM cells, as in the decoders of Sutskever et al. and Luong et al."""

import keras

from keras_attention._utils.initializers import recurrent_initializer


def make_lstm_cells(units, num_layers, dropout, seed, dtype_policy):
    """Returns `num_layers` cells from bottom to top, named `layer_0`, `layer_1`, ...

    Every cell but the first applies dropout to its input, with the same mask for all steps.

    Args:
        units: Positive int, the size of each state.
        num_layers: Positive int.
        dropout: Float in [0, 1).
        seed: Optional int, the seed of the dropout.
        dtype_policy: A dtype policy or its name.

    Example:

    >>> [cell.name for cell in make_lstm_cells(4, 2, 0.0, None, "float32")]
    ['layer_0', 'layer_1']
    """
    policy = keras.dtype_policies.get(dtype_policy)
    return [
        keras.layers.LSTMCell(
            units,
            recurrent_initializer=recurrent_initializer(policy.variable_dtype),
            dropout=dropout if index else 0.0,
            seed=None if seed is None else seed + index,
            dtype=policy,
            name=f"layer_{index}",
        )
        for index in range(num_layers)
    ]
