"""Base class of the wrapper cells that add a context vector z_t to every step.

    o_t, h_t = cell(x_t, h_{t-1})

The context can enter in three places: the output o_t (`context_add_cell`), the output and
optionally the state (`attentional_vector_cell`), and the update itself (`context_input_cell`).
Code name -> name above: `context` -> z_t, `context_dim` -> its width, `output` -> o_t.
"""

from collections.abc import Sequence
from typing import Unpack

import keras

from keras_attention import validation
from keras_attention._utils.base_cell import Cell, get_shapes
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Shape,
    Size,
    Tensor,
    TensorLike,
)
from keras_attention.recurrent._cell_adapter import CellAdapter


class ContextCell(Cell):
    """Wraps a cell whose input is `[x_t; z_t]`; abstract.

    A subclass selects the part of the input for the wrapped cell (`cell_inputs`) and computes the
    new output and state (`apply_context`).
    """

    #: Whether the wrapped cell's input includes z_t.
    reads_context = False

    def __init__(
        self, cell: LayerOrConfig, context_dim: int, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.context_dim = validation.check_positive_int(owner, "context_dim", context_dim)
        if isinstance(cell, (list, tuple, keras.layers.StackedRNNCells)):
            raise ValueError(
                f"{owner} wraps a single cell. Wrap each cell of a stack, or only its first. "
                f"Received: cell={cell!r}"
            )
        self.adapter = CellAdapter(owner, cell)
        self.cell = self.adapter.cell
        self.state_size = self.adapter.state_size
        self.output_size = self.adapter.output_dim
        self.adapter.offer_dropout_masks(self, self.cell_inputs)

    def check_inputs(self, inputs_shape: Shape) -> None:
        validation.check_axes(type(self).__name__, "inputs", inputs_shape, "(batch, input_dim)")
        if inputs_shape[-1] <= self.context_dim:
            raise ValueError(
                f"{type(self).__name__} expects its input to be [x; z] with z the last "
                f"context_dim={self.context_dim} entries and x at least one. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        super().check_inputs(inputs_shape)

    def build(self, input_shape: Shape) -> None:
        self.check_inputs(input_shape)
        self.input_dim = width = input_shape[-1] - self.context_dim
        self.adapter.build((input_shape[0], input_shape[-1] if self.reads_context else width))
        self.built = True

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool | None = None
    ) -> tuple[TensorLike, list[TensorLike]]:
        self.check_step(inputs.shape, get_shapes(states))
        if training:
            self.adapter.check_dropout("Run it in `AttentionRNN`")
        context = inputs[:, self.input_dim :]
        output, states = self.adapter.step(
            self.adapter.project(self.cell_inputs(inputs)), None, list(states), training=training
        )
        return self.apply_context(output, context, states)

    def cell_inputs(self, inputs: TensorLike) -> Tensor:
        """Returns what the wrapped cell reads."""
        return inputs if self.reads_context else inputs[:, : -self.context_dim]

    def apply_context(
        self, output: Tensor, context: Tensor, states: Sequence[Tensor]
    ) -> tuple[TensorLike, Sequence[TensorLike]]:
        """Returns output and states of the step."""
        return output, states

    def get_initial_state(self, batch_size: Size | None = None) -> list[Tensor]:
        states = self.cell.get_initial_state(batch_size=batch_size)
        return list(states) if keras.tree.is_nested(states) else [states]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "context_dim": self.context_dim,
        }
