"""The Neural Turing Machine as a layer, Graves et al. 2014 (https://arxiv.org/abs/1410.5401).

`cell` has the equations of a step, `keras_attention.kernels.ntm_sequence` the loop with a custom
gradient (VJP).
"""

import functools
from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.loop import run_loop, select_examples
from keras_attention._utils.masked_sequences import gather_last_valid, zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
)
from keras_attention.kernels.ntm_controllers import make_custom_gradient_controller
from keras_attention.kernels.ntm_sequence import ntm_sequence
from keras_attention.ntm._state import check_state, map_shapes, state_shapes
from keras_attention.ntm.cell import NTMCell

AUXILIARY_OUTPUTS = ("read_weights", "write_weights", "memory")


@keras.saving.register_keras_serializable(package="keras_attention")
class NTM(Layer):
    """Runs a Neural Turing Machine over a sequence, with the history of its heads.

    Use it instead of `keras.layers.RNN(NTMCell(...))` for speed or for the history.
    With an LSTM, a stack of LSTMs or a dense layer as controller it has a custom gradient:
    training takes less time and memory, and the numbers are the same.

    Args:
        cell: An `NTMCell`.
        return_sequences: Whether to return all outputs or the last one.
        return_state: Whether to return the final state as well.

    Call arguments:
        inputs: Float tensor `(batch, time, input_dim)`.
        initial_state: Optional dict, the state before the first step; see `NTMCell`.
        mask: Boolean `(batch, time)`. A masked step copies the state, writes nothing, and
            returns 0.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_auxiliary_outputs: Whether to return the history of heads and memory as well.
        training: Whether the controller's dropout is applied.

    Returns:
        Outputs `(batch, time, output_dim)`, or the last one `(batch, output_dim)`, followed by
        the requested outputs in this order: the history, a dict of `read_weights` `(batch, time,
        num_read_heads, memory_size)`, `write_weights` `(batch, time, num_write_heads,
        memory_size)` and `memory` `(batch, time, memory_size, word_size)`, the memory after each
        step; and the final state. History and state are at least float32; the history's weights
        are 0 in masked steps.

    Raises:
        ValueError: If `cell` is not an `NTMCell`, the inputs do not have rank 3 or the width at
            build time, the state has a different structure, or the mask is not boolean.

    Masking: uses the mask of the inputs, and propagates it if it returns sequences.

    Example:

    >>> layer = NTM(NTMCell(output_dim=3, memory_size=16, word_size=5))
    >>> outputs, auxiliary_outputs = layer(keras.ops.ones((2, 7, 4)), return_auxiliary_outputs=True)
    >>> tuple(outputs.shape), tuple(auxiliary_outputs["write_weights"].shape)
    ((2, 7, 3), (2, 7, 1, 16))

    Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, section 3.
    """

    def __init__(
        self,
        cell: NTMCell | Config,
        return_sequences: bool = True,
        return_state: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # half precision would round the initial constant of the memory
        cell = keras.saving.deserialize_keras_object(cell) if isinstance(cell, dict) else cell
        if not isinstance(cell, NTMCell):
            raise ValueError(
                "NTM expects `cell` to be an NTMCell; `keras.layers.RNN` runs other cells. "
                f"Received: cell={cell!r}"
            )
        self.cell: NTMCell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state

    def build(
        self, inputs_shape: Shape, initial_state_shape: Shape | Sequence[Shape] | None = None
    ) -> None:
        self._check_inputs(inputs_shape)
        if not self.cell.built:
            self.cell.build((inputs_shape[0], inputs_shape[-1]))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        initial_state: Structure = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        return_auxiliary_outputs: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        mask = self._check_call(inputs, initial_state, mask, inputs_mask)
        inputs = ops.cast(inputs, wide_dtype(self.cell.compute_dtype))
        valid = ops.ones_like(inputs[:, :, :1])
        if mask is not None:
            inputs = zero_masked(inputs, mask)  # padding may be NaN
            valid = valid * ops.cast(mask, inputs.dtype)[:, :, None]
        state = self.cell.start(get_shape(inputs)[0]) if initial_state is None else initial_state
        state = keras.tree.map_structure(lambda part: ops.cast(part, inputs.dtype), state)
        controller = None
        if self.cell.shift.max_shift is not None:
            controller = make_custom_gradient_controller(self.cell.controller, training)
        if controller is None:
            results = self._run_automatic_gradient(
                inputs, valid, state, return_auxiliary_outputs, training
            )
        else:
            results = self._run_custom_gradient(
                inputs, valid, state, return_auxiliary_outputs, controller
            )
        outputs, auxiliary_outputs, state = results
        if mask is not None:
            outputs = zero_masked(outputs, mask)
            for name in AUXILIARY_OUTPUTS[:2]:
                auxiliary_outputs[name] = zero_masked(auxiliary_outputs[name], mask)
        outputs = outputs if self.return_sequences else gather_last_valid(outputs, mask)
        auxiliary_outputs = return_auxiliary_outputs, auxiliary_outputs
        return select_outputs(outputs, auxiliary_outputs, (self.return_state, state))

    def _check_call(self, inputs, initial_state, mask, inputs_mask):
        """Returns the mask of the inputs, or None, after checking all arguments."""
        self._check_inputs(inputs.shape)
        if initial_state is not None:
            check_state("NTM", self.cell, initial_state)
        return validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)

    def _check_inputs(self, shape):
        """Raises unless the layer can be called with inputs of that shape."""
        shape, built = tuple(shape), getattr(self.cell, "input_dim", None)
        if len(shape) != 3 or shape[-1] is None or shape[1] == 0:
            raise ValueError(
                "NTM expects `inputs` of shape (batch, time, input_dim) with a known input_dim, "
                f"and at least one time step. Received: inputs.shape={shape}"
            )
        if built not in (None, shape[-1]):
            raise ValueError(
                f"NTM was built for `inputs` of width {built}. Received: inputs.shape={shape}"
            )

    def _run_automatic_gradient(self, inputs, valid, state, return_memory, training=None):
        """Runs all steps of any cell, with the automatic gradient of the backend."""
        names = AUXILIARY_OUTPUTS if return_memory else AUXILIARY_OUTPUTS[:2]

        def step(step_inputs, states):
            output, new = self.cell.step(step_inputs[:, :-1], states[0], training)
            is_valid = step_inputs[:, -1] > 0
            new = keras.tree.map_structure(
                lambda after, before: select_examples(is_valid, after, before), new, states[0]
            )
            return (output, *(new[name] for name in names)), [new]

        sequence = ops.concatenate([inputs, valid], axis=-1)
        rows, width = get_shape(inputs)[0], self.cell.controller_input_dim
        with self.cell.controller_adapter.dropout_masks(rows, width, training):
            (outputs, *auxiliary_outputs), (last,) = run_loop(step, sequence, [state])
        return outputs, dict(zip(names, auxiliary_outputs, strict=True)), last

    def _run_custom_gradient(self, inputs, valid, state, return_memory, controller):
        """Runs all steps of a cell whose controller has a custom gradient."""
        cell, dtype = self.cell, self.cell.compute_dtype
        word_size, num_read = cell.word_size, cell.num_read_heads
        step_outputs, last = ntm_sequence(
            controller.project(inputs, dtype),
            valid,
            {
                "controller": list(state["controller"]),
                "memory": ops.swapaxes(state["memory"], 1, 2),
                "reads": ops.reshape(state["reads"], (-1, num_read * word_size)),
                "weights": ops.concatenate([state["read_weights"], state["write_weights"]], axis=1),
            },
            {
                "heads": [ops.cast(cell.head_kernel, dtype), ops.cast(cell.head_bias, dtype)],
                "controller": controller.weights(cell.input_dim, dtype),
            },
            cell.heads,
            controller,
            cell.read_from,
            return_memory,
        )
        outputs = cell.compute_output(step_outputs["hidden"], step_outputs["reads"])
        auxiliary_outputs = {
            "read_weights": step_outputs["weights"][:, :, :num_read],
            "write_weights": step_outputs["weights"][:, :, num_read:],
        }
        if return_memory:
            memory = ops.concatenate(
                [step_outputs["memory"][:, 1:], last["memory"][:, None]], axis=1
            )
            auxiliary_outputs["memory"] = ops.swapaxes(memory, 2, 3)
        state = {
            "controller": last["controller"],
            "memory": ops.swapaxes(last["memory"], 1, 2),
            "reads": ops.reshape(last["reads"], (-1, num_read, word_size)),
            "read_weights": last["weights"][:, :num_read],
            "write_weights": last["weights"][:, num_read:],
        }
        return outputs, auxiliary_outputs, state

    def compute_output_shape(
        self, inputs_shape: Shape, initial_state_shape: Shape | Sequence[Shape] | None = None
    ) -> OutputShape:
        self._check_inputs(inputs_shape)
        batch, time = tuple(inputs_shape)[:2]
        last = (batch, self.cell.output_dim)
        outputs = (batch, time, self.cell.output_dim) if self.return_sequences else last
        return (outputs, state_shapes(self.cell, batch)) if self.return_state else outputs

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_call(call.inputs, call.initial_state, call.mask, call.inputs_mask)
        (batch, time), cell = call.inputs.shape[:2], self.cell
        steps, shapes = (time,) if self.return_sequences else (), state_shapes(cell, batch)
        spec = functools.partial(keras.KerasTensor, dtype=wide_dtype(cell.compute_dtype))
        history = {name: spec((batch, time, *shapes[name][1:])) for name in AUXILIARY_OUTPUTS}
        return select_outputs(
            keras.KerasTensor((batch, *steps, cell.output_dim), dtype=cell.compute_dtype),
            (call.return_auxiliary_outputs, history),
            (self.return_state, map_shapes(spec, shapes)),
        )

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask if self.return_sequences else None

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
        }
