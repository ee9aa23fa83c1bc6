"""A recurrent cell with a context z_t added after the update.

    o_t, h_t = cell(x_t, h_{t-1})
    ADD     o_t <- o_t + W_z z_t            W_z only if the widths differ

Code name -> name above: `context` -> z_t, `context_dim` -> its width, `kernel` -> W_z,
`output` -> o_t.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention._utils.tensor_types import (
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
class ContextAddCell(ContextCell):
    """Adds z_t to the output of a cell and leaves its state unchanged.

    Use it if z_t matters for the current output only. It runs in `keras.layers.RNN`, over
    sequences concatenated on the last axis, and in
    `AttentionRNN(order="bahdanau")`, which feeds `[x_t; context]`.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t. If it differs from that of the output, z_t
            is projected.
        kernel_initializer: Initializer of the projection.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input is too narrow to contain x_t.

    Example:

    >>> cell = ContextAddCell(keras.layers.SimpleRNNCell(4, kernel_initializer="zeros"), 4)
    >>> output, states = cell(keras.ops.ones((2, 3 + 4)), [keras.ops.zeros((2, 4))])
    >>> float(keras.ops.max(output)), float(keras.ops.max(states[0]))
    (1.0, 0.0)
    """

    def __init__(
        self,
        cell: LayerOrConfig,
        context_dim: int,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(cell, context_dim, **kwargs)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.kernel: keras.Variable = None
        if self.context_dim != self.output_size:
            self.kernel = self.add_weight(
                (self.context_dim, self.output_size), self.kernel_initializer, name="kernel"
            )

    def apply_context(
        self, output: Tensor, context: Tensor, states: Sequence[Tensor]
    ) -> tuple[TensorLike, Sequence[TensorLike]]:
        if self.kernel is not None:
            context = ops.matmul(context, ops.cast(self.kernel, context.dtype))
        return output + ops.cast(context, output.dtype), states

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
