"""A recurrent cell whose output is projected together with a context z_t.

    o_t, h_t = cell(x_t, h_{t-1})
    CONCAT  h_t <- W_c [h_t; z_t]           the output and, if carried, the state

With tanh this is the attentional vector of Luong et al. 2015 (https://arxiv.org/abs/1508.04025,
equation 5). Code name -> name above: `context` -> z_t, `context_dim` -> its width, `kernel` ->
W_c, `output` -> h_t, which is the output of a plain cell.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    LayerOrConfig,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.recurrent._context_cell import ContextCell


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionalVectorCell(ContextCell):
    """Projects a cell's output together with z_t; the result may replace the state.

    Use it to mix z_t with the output; `ContextInputCell` joins z_t to the input. With
    `activation="tanh"` and an attention context as z_t, the result is Luong's attentional vector.
    It runs in the same layers as `ContextAddCell`.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t.
        activation: Activation of the result; None for a linear one.
        output_is_state: Whether the result also replaces the first tensor of the state.
        kernel_initializer: Initializer of W_c, `(units + context_dim, units)`.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input is too narrow to contain x_t.

    Example:

    >>> cell = keras.layers.GRUCell(4)
    >>> cell = AttentionalVectorCell(cell, 5, activation="tanh", output_is_state=True)
    >>> output, states = cell(keras.ops.ones((2, 3 + 5)), [keras.ops.zeros((2, 4))])
    >>> tuple(output.shape), bool(keras.ops.all(output == states[0]))
    ((2, 4), True)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 5.
    """

    def __init__(
        self,
        cell: LayerOrConfig,
        context_dim: int,
        activation: Activation = None,
        output_is_state: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(cell, context_dim, **kwargs)
        self.activation: ActivationFunction = keras.activations.get(activation)
        self.output_is_state = output_is_state
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.kernel: keras.Variable = self.add_weight(
            (self.output_size + self.context_dim, self.output_size),
            self.kernel_initializer,
            name="kernel",
        )

    def apply_context(
        self, output: Tensor, context: Tensor, states: Sequence[Tensor]
    ) -> tuple[TensorLike, Sequence[TensorLike]]:
        pair = ops.concatenate([output, ops.cast(context, output.dtype)], axis=-1)
        output = self.activation(ops.matmul(pair, ops.cast(self.kernel, output.dtype)))
        if self.output_is_state:
            states = [ops.cast(output, states[0].dtype), *states[1:]]
        return output, states

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "output_is_state": self.output_is_state,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
