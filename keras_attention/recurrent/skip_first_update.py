"""A cell that skips its first update, for readouts that come before the update."""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

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


@keras.saving.register_keras_serializable(package="keras_attention")
class SkipFirstUpdate(Cell):
    """Wraps a cell so that its first step copies the state.

    In the authors' RNNsearch the readout uses (s_{i-1}, y_{i-1}, c_i), and only then
    s_i = f(s_{i-1}, y_i, c_i) updates the state. From the viewpoint of the next step, which has
    y_i, the update comes first, but there is nothing to update with in the first step.

    Args:
        cell: Any Keras cell.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`.
        states: The cell's states, followed by a tensor `(batch, 1)`, 0 before the first step
            and 1 after it.
        training: Whether the dropout of the cell is applied.

    Returns:
        The output of the cell (in the first step, the first tensor of its state), and the new
        states.

    Raises:
        ValueError: If `cell` is not a Keras cell.

    Example:

    >>> cell = SkipFirstUpdate(keras.layers.GRUCell(4))
    >>> states = [keras.ops.ones((2, 4)), keras.ops.zeros((2, 1))]
    >>> output, states = cell(keras.ops.ones((2, 3)), states)
    >>> float(keras.ops.min(output)), float(states[1][0, 0])
    (1.0, 1.0)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.2.2.
    """

    def __init__(self, cell: LayerOrConfig, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.adapter: CellAdapter = CellAdapter("SkipFirstUpdate", cell)
        self.cell: keras.layers.Layer = self.adapter.cell
        self.state_size: list[int] = [*self.adapter.state_size, 1]
        self.output_size: int = self.adapter.output_dim
        self.adapter.offer_dropout_masks(self)
        if self.adapter.has_projection:
            self.project, self.update = self.cell.project, self._update

    @property
    def kernel(self) -> keras.Variable:
        """The input kernel of a cell whose projection can run outside of the loop."""
        return self.cell.kernel

    def build(self, input_shape: Shape) -> None:
        self.check_inputs(input_shape)
        self.adapter.build(input_shape)
        self.built = True

    def _update(
        self, projected: TensorLike, states: Sequence[TensorLike]
    ) -> tuple[Tensor, list[Tensor]]:
        *inner, has_started = states
        return self._skip_first(*self.cell.update(projected, inner), inner, has_started)

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool | None = None
    ) -> tuple[TensorLike, list[TensorLike]]:
        self.check_step(inputs.shape, get_shapes(states))
        if training:
            self.adapter.check_dropout("Run it in `AttentionRNN`")
        *inner, has_started = states
        output, new_states = self.adapter.step(
            self.adapter.project(inputs), None, list(inner), training=training
        )
        return self._skip_first(output, new_states, inner, has_started)

    @staticmethod
    def _skip_first(output, new_states, states, has_started):
        output = ops.where(has_started > 0, output, ops.cast(states[0], output.dtype))
        kept = [
            ops.where(has_started > 0, new, old)
            for new, old in zip(new_states, states, strict=True)
        ]
        return output, [*kept, ops.ones_like(has_started)]

    def get_initial_state(self, batch_size: Size | None = None) -> list[Tensor]:
        states = self.cell.get_initial_state(batch_size=batch_size)
        states = list(states) if keras.tree.is_nested(states) else [states]
        return [*states, ops.zeros((batch_size, 1), dtype=self.compute_dtype)]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
        }
