"""A recurrent network told something more, z_t, where it is read out.

    o_t, h_t = cell(x_t, h_{t-1})
    CONCAT  h_t <- W_c [h_t; z_t]           what is read out and, if carried, remembered

With tanh this is the attentional vector of Luong et al. 2015 (https://arxiv.org/abs/1508.04025,
equation 5). Code name -> name above: `context` -> z_t, `context_dim` -> its width, `kernel` ->
W_c, `output` -> h_t, which is the output of a plain cell.
"""

import keras
from keras import initializers, ops

from keras_attention.recurrent.context_cell import ContextCell


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextConcat(ContextCell):
    """Reads out a cell's output together with z_t, and may remember the result.

    Use it where z_t should mix with the output. With `activation="tanh"` and z_t a context of
    attention the result is Luong's attentional vector. It runs where `ContextAdd` does.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t.
        activation: Activation of the result; None for a linear one.
        carry: Whether the result also takes the place of the first tensor of the state.
        kernel_initializer: Initializer of W_c, `(units + context_dim, units)`.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input has no room for x_t.

    Example:

    >>> cell = ContextConcat(keras.layers.GRUCell(4), 5, activation="tanh", carry=True)
    >>> output, states = cell(keras.ops.ones((2, 3 + 5)), [keras.ops.zeros((2, 4))])
    >>> tuple(output.shape), bool(keras.ops.all(output == states[0]))
    ((2, 4), True)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 5.
    """

    def __init__(
        self,
        cell,
        context_dim,
        activation=None,
        carry=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(cell, context_dim, **kwargs)
        self.activation = keras.activations.get(activation)
        self.carry = carry
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = self.add_weight(
            (self.output_size + self.context_dim, self.output_size),
            self.kernel_initializer,
            name="kernel",
        )

    def finish(self, output, context, states):
        pair = ops.concatenate([output, ops.cast(context, output.dtype)], axis=-1)
        output = self.activation(ops.matmul(pair, ops.cast(self.kernel, output.dtype)))
        if self.carry:
            states = [ops.cast(output, states[0].dtype), *states[1:]]
        return output, states

    def get_config(self):
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "carry": self.carry,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
