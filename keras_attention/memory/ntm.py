"""The Neural Turing Machine as a layer, Graves et al. 2014 (https://arxiv.org/abs/1410.5401).

`cell` has the equations of a step, `sequence` the loop with its gradient written out.
"""

import functools

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.loop import choose_rows, run_loop
from keras_attention.memory.cell import NTMCell
from keras_attention.memory.sequence import ntm_sequence
from keras_attention.memory.state import check_state, map_shapes, state_shapes
from keras_attention.memory.written_out import written_out
from keras_attention.precision import wide_dtype

HISTORY = ("read_weights", "write_weights", "memory")


@keras.saving.register_keras_serializable(package="keras_attention")
class NTM(Layer):
    """Runs a Neural Turing Machine over a sequence, and shows what its heads do.

    Use it where `keras.layers.RNN(NTMCell(...))` would do and speed or the history matters.
    With an LSTM, a stack of LSTMs or a dense layer as controller the gradient is written out:
    training takes less time and memory, and the numbers are the same.

    Args:
        cell: An `NTMCell`.
        return_sequences: Whether to return all outputs or the last one.
        return_state: Whether to return the last state as well.

    Call arguments:
        inputs: Float tensor `(batch, time, input_dim)`.
        initial_state: Optional dict, the state before the first step; see `NTMCell`.
        mask: Boolean `(batch, time)`. A masked step copies the state, writes nothing, and
            gives 0.
        inputs_mask: Used where `mask` is None: Keras puts the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_history: Whether the history of heads and memory is returned too.
        training: Whether the controller's dropout is applied.

    Returns:
        Outputs `(batch, time, output_dim)`, or the last one `(batch, output_dim)`, followed by
        what was asked for, in this order: the history, a dict of `read_weights` `(batch, time,
        num_read_heads, slots)`, `write_weights` `(batch, time, num_write_heads, slots)` and
        `memory` `(batch, time, slots, slot_dim)`, the memory after each step; and the last
        state. History and state are at least float32; the history's weights are 0 in a masked
        step.

    Raises:
        ValueError: If `cell` is not an `NTMCell`, the inputs are not of rank 3 or of another
            width than before, the state has another structure, or the mask is not boolean.

    Masking: reads the mask of the inputs, and passes it on where it returns sequences.

    Example:

    >>> layer = NTM(NTMCell(output_dim=3, slots=16, slot_dim=5))
    >>> outputs, history = layer(keras.ops.ones((2, 7, 4)), return_history=True)
    >>> tuple(outputs.shape), tuple(history["write_weights"].shape)
    ((2, 7, 3), (2, 7, 1, 16))

    Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, section 3.
    """

    def __init__(self, cell, return_sequences=True, return_state=False, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # a memory rounded to half precision would forget its constant
        cell = keras.saving.deserialize_keras_object(cell) if isinstance(cell, dict) else cell
        if not isinstance(cell, NTMCell):
            raise ValueError(
                "NTM expects `cell` to be an NTMCell; `keras.layers.RNN` runs other cells. "
                f"Received: cell={cell!r}"
            )
        self.cell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state

    def build(self, inputs_shape, initial_state_shape=None):
        self._check_inputs(inputs_shape)
        if not self.cell.built:
            self.cell.build((inputs_shape[0], inputs_shape[-1]))
        self.built = True

    def call(
        self,
        inputs,
        initial_state=None,
        mask=None,
        inputs_mask=None,
        return_history=False,
        training=None,
    ):
        self._check_inputs(inputs.shape)
        if initial_state is not None:
            check_state("NTM", self.cell, initial_state)
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        mask = checks.own_mask("NTM", inputs.shape[:2], "(batch, time)", **masks)
        inputs = ops.cast(inputs, wide_dtype(self.cell.compute_dtype))
        kept = ops.ones_like(inputs[:, :, :1])
        if mask is not None:
            inputs = ops.where(mask[:, :, None], inputs, 0)  # padding may hold NaN
            kept = kept * ops.cast(mask, inputs.dtype)[:, :, None]
        state = self.cell.start(ops.shape(inputs)[0]) if initial_state is None else initial_state
        state = keras.tree.map_structure(lambda part: ops.cast(part, inputs.dtype), state)
        controller = None
        if self.cell.shift.reach is not None:
            controller = written_out(self.cell.controller, training)
        if controller is None:
            results = self._run(inputs, kept, state, return_history, training)
        else:
            results = self._run_written_out(inputs, kept, state, return_history, controller)
        outputs, history, state = results
        if mask is not None:
            outputs = ops.where(mask[:, :, None], outputs, 0)
            for name in HISTORY[:2]:
                history[name] = ops.where(mask[:, :, None, None], history[name], 0)
        results = [outputs if self.return_sequences else _last_kept(outputs, mask)]
        results += [history] if return_history else []
        results += [state] if self.return_state else []
        return tuple(results) if len(results) > 1 else results[0]

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

    def _run(self, inputs, kept, state, with_memory, training=None):
        """All steps of any cell; the gradient is the backend's."""
        names = HISTORY if with_memory else HISTORY[:2]

        def step(step_inputs, states):
            output, new = self.cell.step(step_inputs[:, :-1], states[0], training)
            keep = step_inputs[:, -1] > 0
            new = keras.tree.map_structure(
                lambda after, before: choose_rows(keep, after, before), new, states[0]
            )
            return (output, *(new[name] for name in names)), [new]

        sequence = ops.concatenate([inputs, kept], axis=-1)
        rows, width = ops.shape(inputs)[0], self.cell.fed_dim
        with self.cell.control.dropout_masks(rows, width, training):
            (outputs, *history), (last,) = run_loop(step, sequence, [state])
        return outputs, dict(zip(names, history, strict=True)), last

    def _run_written_out(self, inputs, kept, state, with_memory, controller):
        """All steps of a cell whose controller's gradient is written out."""
        cell, dtype = self.cell, self.cell.compute_dtype
        slot_dim, num_read = cell.slot_dim, cell.num_read_heads
        done, last = ntm_sequence(
            controller.project(inputs, dtype),
            kept,
            {
                "controller": list(state["controller"]),
                "memory": ops.swapaxes(state["memory"], 1, 2),
                "reads": ops.reshape(state["reads"], (-1, num_read * slot_dim)),
                "weights": ops.concatenate([state["read_weights"], state["write_weights"]], axis=1),
            },
            {
                "heads": [ops.cast(cell.head_kernel, dtype), ops.cast(cell.head_bias, dtype)],
                "controller": controller.weights(cell.input_dim, dtype),
            },
            cell.heads,
            controller,
            cell.read_from,
            with_memory,
        )
        outputs = cell.read_out(done["hidden"], done["reads"])
        history = {
            "read_weights": done["weights"][:, :, :num_read],
            "write_weights": done["weights"][:, :, num_read:],
        }
        if with_memory:
            memory = ops.concatenate([done["memory"][:, 1:], last["memory"][:, None]], axis=1)
            history["memory"] = ops.swapaxes(memory, 2, 3)
        state = {
            "controller": last["controller"],
            "memory": ops.swapaxes(last["memory"], 1, 2),
            "reads": ops.reshape(last["reads"], (-1, num_read, slot_dim)),
            "read_weights": last["weights"][:, :num_read],
            "write_weights": last["weights"][:, num_read:],
        }
        return outputs, history, state

    def compute_output_shape(self, inputs_shape, initial_state_shape=None):
        self._check_inputs(inputs_shape)
        batch, time = tuple(inputs_shape)[:2]
        last = (batch, self.cell.output_dim)
        outputs = (batch, time, self.cell.output_dim) if self.return_sequences else last
        return (outputs, state_shapes(self.cell, batch)) if self.return_state else outputs

    def compute_output_spec(
        self,
        inputs,
        initial_state=None,
        mask=None,
        inputs_mask=None,
        return_history=False,
        training=None,
    ):
        self._check_inputs(inputs.shape)
        if initial_state is not None:
            check_state("NTM", self.cell, initial_state)
        (batch, time), cell = inputs.shape[:2], self.cell
        wide = wide_dtype(cell.compute_dtype)
        steps = (time,) if self.return_sequences else ()
        results = [keras.KerasTensor((batch, *steps, cell.output_dim), dtype=cell.compute_dtype)]
        shapes = state_shapes(cell, batch)
        if return_history:
            results.append(
                {
                    name: keras.KerasTensor((batch, time, *shapes[name][1:]), dtype=wide)
                    for name in HISTORY
                }
            )
        if self.return_state:
            results.append(map_shapes(functools.partial(keras.KerasTensor, dtype=wide), shapes))
        return tuple(results) if len(results) > 1 else results[0]

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask if self.return_sequences else None

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
        }


def _last_kept(outputs, mask):
    """Returns the output of the last step that is not masked; 0 where all are."""
    if mask is None:
        return outputs[:, -1]
    later = ops.cumsum(ops.flip(ops.cast(mask, "int32"), 1), axis=1)
    is_last = ops.flip(later == 1, 1) & mask
    return ops.sum(ops.where(is_last[:, :, None], outputs, 0), axis=1)
