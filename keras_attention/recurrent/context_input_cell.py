"""A recurrent cell that reads a context z_t beside its input.

    MLP     o_t, h_t = cell([x_t; z_t], h_{t-1})

For a plain cell this is h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh + W_zh z_t + b_zh):
the rows of its kernel are W_ih above W_zh, its bias is the sum of the three. Bahdanau et al. 2015
(https://arxiv.org/abs/1409.0473, A.2.2) feed a context in this way. Code name -> name above:
`context_dim` -> the width of z_t.
"""

import keras

from keras_attention.recurrent._context_cell import ContextCell


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextInputCell(ContextCell):
    """Joins z_t to the input of a cell, so that it takes part in the update.

    Use it if z_t should affect the state; `AttentionalVectorCell` joins z_t to the output.
    Attention before the update (`AttentionRNN(order="bahdanau")`) is this with the context as z_t.
    The cell gets `[x_t; z_t]` and has one kernel, whose last `context_dim` rows are W_zh; in a
    gated cell z_t reaches every gate. It runs in the same layers as `ContextAddCell`.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input is too narrow to contain x_t.

    Example:

    >>> cell = ContextInputCell(keras.layers.SimpleRNNCell(4), 5)
    >>> output, states = cell(keras.ops.ones((2, 3 + 5)), [keras.ops.zeros((2, 4))])
    >>> tuple(output.shape), tuple(cell.cell.kernel.shape)
    ((2, 4), (8, 4))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.2.2.
    """

    reads_context = True
