"""A recurrent network told something more, z_t, after the update.

    o_t, h_t = cell(x_t, h_{t-1})
    ADD     o_t <- o_t + W_z z_t            W_z only where the widths differ

Code name -> name above: `context` -> z_t, `context_dim` -> its width, `kernel` -> W_z,
`output` -> o_t.
"""

import keras
from keras import initializers, ops

from keras_attention.recurrent.context_cell import ContextCell


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextAdd(ContextCell):
    """Adds z_t to the output of a cell, and leaves what it remembers alone.

    Use it where z_t bears on what is said now and on nothing later. It runs in
    `keras.layers.RNN`, over sequences concatenated on the last axis, and in
    `AttentionRNN(order="bahdanau")`, which feeds `[x_t; context]`.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t. Where it is not that of the output, z_t
            is projected.
        kernel_initializer: Initializer of the projection.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input has no room for x_t.

    Example:

    >>> cell = ContextAdd(keras.layers.SimpleRNNCell(4, kernel_initializer="zeros"), 4)
    >>> output, states = cell(keras.ops.ones((2, 3 + 4)), [keras.ops.zeros((2, 4))])
    >>> float(keras.ops.max(output)), float(keras.ops.max(states[0]))
    (1.0, 0.0)
    """

    def __init__(self, cell, context_dim, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(cell, context_dim, **kwargs)
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = None
        if self.context_dim != self.output_size:
            self.kernel = self.add_weight(
                (self.context_dim, self.output_size), self.kernel_initializer, name="kernel"
            )

    def finish(self, output, context, states):
        if self.kernel is not None:
            context = ops.matmul(context, ops.cast(self.kernel, context.dtype))
        return output + ops.cast(context, output.dtype), states

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
