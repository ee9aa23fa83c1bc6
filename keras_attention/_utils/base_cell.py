"""What the recurrent cells have in common: the shapes of one step."""

from collections.abc import Sequence

import keras

from keras_attention import validation
from keras_attention._utils.quantization import QuantizedWeightsMixin
from keras_attention._utils.recomputation import Recomputable
from keras_attention._utils.tensor_types import OutputShape, Shape, Spec, Structure, Tensor


class Cell(QuantizedWeightsMixin, Recomputable, keras.layers.Layer):
    """A recurrent cell, called with the inputs of one step and a list of states.

    A subclass sets `state_size` and `output_size`, and calls `check_step` first in `call`.
    """

    def check_inputs(self, inputs_shape: Shape) -> None:
        """Raises `ValueError` unless the cell can be built for, or called with, such inputs."""
        validation.check_axes(type(self).__name__, "inputs", inputs_shape, "(batch, input_dim)")
        validation.check_built_dims(self, inputs=inputs_shape)

    def check_step(self, inputs_shape: Shape, states_shape: Sequence[Shape] | None = None) -> None:
        """Raises `ValueError` unless the shapes of inputs and states fit."""
        self.check_inputs(inputs_shape)
        if states_shape:
            validation.check_same_size(
                type(self).__name__, 0, inputs=inputs_shape, states=states_shape[0]
            )

    def compute_output_shape(
        self, inputs_shape: Shape, states_shape: Sequence[Shape] | None = None
    ) -> OutputShape:
        self.check_step(inputs_shape, states_shape)
        batch = inputs_shape[0]
        states = [(batch, size) for size in keras.tree.flatten(self.state_size)]
        return (batch, self.output_size), states

    def compute_output_spec(
        self, inputs: Tensor, states: Sequence[Tensor], *args: Structure, **kwargs: Structure
    ) -> Spec:
        flat = keras.tree.flatten(states)
        self.check_step(inputs.shape, get_shapes(states))
        output = keras.KerasTensor((inputs.shape[0], self.output_size), self.compute_dtype)
        return output, [keras.KerasTensor(state.shape, state.dtype) for state in flat]


def get_shapes(states: Structure) -> list[tuple]:
    """Returns the shapes of a list of states."""
    return [tuple(state.shape) for state in keras.tree.flatten(states)]
