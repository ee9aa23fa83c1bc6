"""The controller of a Neural Turing Machine: any Keras cell or layer."""

import contextlib

import keras
from keras import ops

from keras_attention._utils.initializers import recurrent_initializer
from keras_attention.recurrent._cell_adapter import CellAdapter

CONTROLLERS = ("lstm", "feed_forward")


def get(owner, controller, dtype_policy):
    """Returns the controller for a name, a config or an object.

    Raises:
        ValueError: If it is none of them.
    """
    if isinstance(controller, dict):
        controller = keras.saving.deserialize_keras_object(controller)
    if isinstance(controller, str) and controller in CONTROLLERS:
        options = {"dtype": dtype_policy, "name": "controller"}
        if controller == "lstm":
            kernel = recurrent_initializer(dtype_policy.variable_dtype)
            return keras.layers.LSTMCell(100, recurrent_initializer=kernel, **options)
        return keras.layers.Dense(100, activation="tanh", **options)
    if isinstance(controller, keras.layers.RNN):
        raise ValueError(
            f"{owner} expects `controller` to run one step. Pass the cell of a recurrent layer, "
            f"as in `keras.layers.LSTMCell(100)`. Received: controller={controller!r}"
        )
    if not isinstance(controller, keras.layers.Layer):
        raise ValueError(
            f"{owner} expects `controller` to be a Keras cell or layer, or one of "
            f"{', '.join(map(repr, CONTROLLERS))}. Received: controller={controller!r}"
        )
    if getattr(controller, "activity_regularizer", None) is not None:
        raise ValueError(
            f"{owner} expects a `controller` without `activity_regularizer`: a loop over time "
            "cannot add losses. Regularize its kernel or the outputs of the NTM. "
            f"Received: controller={controller.name!r} with {controller.activity_regularizer!r}"
        )
    return controller


class ControllerAdapter:
    """Builds and calls the controller; its state is a flat list, empty for a layer.

    Args:
        owner: The name of the class the user called.
        layer: A Keras cell or layer.
    """

    def __init__(self, owner, layer):
        self.owner, self.layer = owner, layer
        self.cell = CellAdapter(owner, layer) if hasattr(layer, "state_size") else None

    @property
    def state_sizes(self):
        """The sizes of the states in a flat list."""
        return [] if self.cell is None else keras.tree.flatten(self.cell.state_size)

    def build(self, inputs_shape):
        """Builds the controller for `(batch, width)`; returns the size of its output.

        Raises:
            ValueError: If it was built for inputs of a different width, or its output is not
                `(batch, units)`.
        """
        first = self.layer if self.cell is None else self.cell.cells[0]
        kernel = getattr(first, "kernel", None)
        if self.layer.built and kernel is not None and kernel.shape[0] != inputs_shape[-1]:
            self._raise_wrong_width(inputs_shape[-1], f"built for the width {kernel.shape[0]}")
        if self.cell is not None:
            self.cell.build(inputs_shape)
            return getattr(self.layer, "output_size", self.cell.output_dim)
        try:
            if not self.layer.built:
                self.layer.build(inputs_shape)
            inputs = keras.KerasTensor(inputs_shape, self.layer.compute_dtype)
            output = self.layer.compute_output_spec(inputs)
        except ValueError as error:
            self._raise_wrong_width(inputs_shape[-1], f"which raised: {error}")
        shape = tuple(getattr(output, "shape", (None,)))
        if len(shape) != 2 or not isinstance(shape[-1], int):
            raise ValueError(
                f"{self.owner} expects a `controller` whose output has the shape (batch, units). "
                f"Received: controller={self.layer.name!r} with the output shape {shape}"
            )
        return shape[-1]

    def _raise_wrong_width(self, width, received):
        raise ValueError(
            f"{self.owner} expects a `controller` that takes inputs of the width input_dim + "
            f"num_read_heads * word_size, here {width}; a new one is built for this width. "
            f"Received: controller={self.layer.name!r}, {received}"
        )

    def start(self, batch_size, dtype):
        """Returns the states before the first step: zeros."""
        return [ops.zeros((batch_size, size), dtype=dtype) for size in self.state_sizes]

    def step(self, inputs, states, training=None):
        """Returns the output and the new states, in the dtypes of the old ones."""
        if self.cell is None:
            return self.layer(inputs, training=training), []
        if training:
            self.cell.check_dropout("Run it in `NTM`")
        structured = keras.tree.pack_sequence_as(self.cell.state_size, list(states))
        output, new = self.cell.step(self.cell.project(inputs), None, structured, training)
        return output, keras.tree.flatten(new)

    @contextlib.contextmanager
    def dropout_masks(self, rows, width, training):
        """Context manager: samples the cell's dropout masks for a loop, and drops them on exit."""
        if self.cell is None:
            yield
            return
        with self.cell.dropout_masks(rows, width, training):
            yield
