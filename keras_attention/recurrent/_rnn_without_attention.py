"""A recurrence that does not attend to its source, for decoders without attention.

    h_t = cell(x_t, h_{t-1})
    h_t = cell([x_t; c], h_{t-1}),  c = summary(h_S)       one context for all steps

It has the methods of `AttentionRNN`, so that a decoder works with either. Code name ->
name above: `memory` -> h_1 .. h_S, `context` -> c.
"""

import keras
from keras import ops

from keras_attention._utils.flat_beams import repeat_for_beams
from keras_attention._utils.loop import run_loop
from keras_attention._utils.masked_sequences import gather_last_valid
from keras_attention._utils.recomputation import Recomputable
from keras_attention._utils.shapes import get_shape
from keras_attention.recurrent._cell_adapter import CellAdapter
from keras_attention.validation import check_ready


class RNNWithoutAttention(Recomputable, keras.layers.Layer):
    """Runs a cell over a sequence without attention; the weights on its memory are all 0.

    Args:
        cell: Any Keras cell, or a list of cells to stack. With a summary, a cell with `project`
            and `update`, such as `ChoGRUCell`.
        summary: Optional layer from the memory's last unmasked position, `(batch, memory_dim)`,
            to a context of static width `units`, which the cell gets at every step.

    Memory: a dict of `mask`, boolean `(batch, source)`, and with a summary `context`
        `(batch, units)` and `projected_context`, its projection for the cell.

    State: a dict of `cell` (the cell's list) and `position`, int32 `(rows,)`, the number of
        completed steps.
    """

    #: Names of the outputs besides context and weights.
    auxiliary_outputs = ()

    def __init__(self, cell, summary=None, **kwargs):
        super().__init__(**kwargs)
        self.adapter = CellAdapter(type(self).__name__, cell)
        self.cell = self.adapter.cell
        self.summary = summary

    def build(self, inputs_shape, memory_shape):
        batch, self.input_dim, self.memory_dim = inputs_shape[0], inputs_shape[-1], memory_shape[-1]
        width = self.input_dim
        if self.summary is not None:
            self.summary.build((batch, self.memory_dim))
            width += self.summary.units
        self.adapter.build((batch, width))
        self.built = True

    def prepare(self, memory, memory_mask=None):
        """Returns the part that depends on the memory alone, including its mask."""
        check_ready(self, memory)
        if memory_mask is None:
            memory_mask = ops.ones(get_shape(memory)[:2], dtype="bool")
        prepared = {"mask": memory_mask}
        if self.summary is not None:
            last = gather_last_valid(ops.cast(memory, self.compute_dtype), memory_mask)
            prepared["context"] = self.summary(last)
            prepared["projected_context"] = self.cell.project(
                prepared["context"], first=self.input_dim
            )
        return prepared

    def start(self, memory, initial_state=None):
        """Returns the state before the first step, for the result of `prepare`."""
        rows = get_shape(memory["mask"])[0]
        return {
            "cell": self.adapter.start(rows, initial_state),
            "position": ops.zeros((rows,), dtype="int32"),
        }

    def step(self, inputs, state, memory):
        """Runs one step.

        Args:
            inputs: Float tensor `(rows, input_dim)`; rows is the batch size, or batch times
                beam (flat beams, batch major).
            state: The state, every leaf with leading dimension rows.
            memory: The result of `prepare`, with leading dimension batch.

        Returns:
            Output `(rows, units)`, context `(rows, units)` or None, weights of 0
            `(rows, source)`, state.
        """
        check_ready(self, inputs)
        rows, context = get_shape(inputs)[0], None
        projected = self.adapter.project(ops.cast(inputs, self.compute_dtype))
        if self.summary is not None:
            projected = projected + repeat_for_beams(memory["projected_context"], rows)
            context = repeat_for_beams(memory["context"], rows)
        output, state = self._step_projected(projected, state)
        return output, context, ops.zeros((rows, get_shape(memory["mask"])[1])), state

    def run(self, inputs, state, memory, training=None):
        """Runs all steps; returns outputs, contexts, weights, auxiliary outputs and state."""
        (batch, time), contexts = get_shape(inputs)[:2], None
        projected = self.adapter.project(ops.cast(inputs, self.compute_dtype))
        if self.summary is not None:
            context = memory["context"]
            projected = projected + memory["projected_context"][:, None]
            contexts = ops.broadcast_to(context[:, None], (batch, time, context.shape[-1]))

        def step(step_inputs, states):
            output, new_state = self._step_projected(step_inputs, states[0], training)
            return output, [new_state]

        with self.adapter.dropout_masks(batch, self.input_dim, training):
            outputs, (state,) = run_loop(step, projected, [state])
        weights = ops.zeros((batch, time, get_shape(memory["mask"])[1]))
        return outputs, contexts, weights, {}, state

    def _step_projected(self, projected, state, training=None):
        """Runs one step from a projected input; returns output and state."""
        output, cell = self.adapter.step(projected, None, state["cell"], training)
        return output, {"cell": cell, "position": state["position"] + 1}
