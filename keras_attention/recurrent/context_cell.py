"""What the cells share that are told something more, z_t, at every step.

    o_t, h_t = cell(x_t, h_{t-1})

Three places are open to z_t: beside o_t (`context_add`), in what is read out and, if carried,
remembered (`context_concat`), and in the update itself (`context_mlp`). Code name -> name above:
`context` -> z_t, `context_dim` -> its width, `output` -> o_t.
"""

import keras

from keras_attention import checks
from keras_attention.recomputation import Recomputable
from keras_attention.recurrent.cells import CellAdapter, step_spec


class ContextCell(Recomputable, keras.layers.Layer):
    """A cell around a cell, whose input is `[x_t; z_t]`; the base of the three.

    A subclass says which part of the input the wrapped cell reads (`cell_inputs`) and what
    becomes of its output and state (`finish`).
    """

    #: Whether the wrapped cell reads z_t too.
    reads_context = False

    def __init__(self, cell, context_dim, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.context_dim = checks.positive_int(owner, "context_dim", context_dim)
        if isinstance(cell, (list, tuple, keras.layers.StackedRNNCells)):
            raise ValueError(
                f"{owner} wraps one cell; wrap each cell of a stack, or its first, by itself. "
                f"Received: cell={cell!r}"
            )
        self.adapter = CellAdapter(owner, cell)
        self.cell = self.adapter.cell
        self.state_size = self.adapter.state_size
        self.output_size = self.adapter.output_dim
        if hasattr(self.cell, "get_dropout_mask"):
            self._offer_dropout_masks()

    def build(self, input_shape):
        checks.cell_inputs(type(self).__name__, input_shape)
        width = input_shape[-1] - self.context_dim
        if width < 1:
            raise ValueError(
                f"{type(self).__name__} expects its input to be [x; z] with z the last "
                f"context_dim={self.context_dim} entries and x at least one. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )
        self.input_dim = width
        self.adapter.build((input_shape[0], input_shape[-1] if self.reads_context else width))
        self.built = True

    def call(self, inputs, states, training=None):
        if training:
            self.adapter.check_dropout("Run it in `AttentionRNN`")
        context = inputs[:, self.input_dim :]
        output, states = self.adapter.step(
            self.adapter.project(self.cell_inputs(inputs)), None, list(states), training=training
        )
        return self.finish(output, context, states)

    def compute_output_spec(self, inputs, states, training=None):
        return step_spec(self, inputs, states)

    def cell_inputs(self, inputs):
        """Returns what the wrapped cell reads."""
        return inputs if self.reads_context else inputs[:, : -self.context_dim]

    def finish(self, output, context, states):
        """Returns output and states of the step."""
        return output, states

    def _offer_dropout_masks(self):
        """Lets `AttentionRNN` draw the masks of the wrapped cell before its loop."""
        self.get_dropout_mask = lambda inputs: self.cell.get_dropout_mask(self.cell_inputs(inputs))
        self.get_recurrent_dropout_mask = self.cell.get_recurrent_dropout_mask
        self.reset_dropout_mask = self.cell.reset_dropout_mask
        self.reset_recurrent_dropout_mask = self.cell.reset_recurrent_dropout_mask

    def get_initial_state(self, batch_size=None):
        states = self.cell.get_initial_state(batch_size=batch_size)
        return list(states) if keras.tree.is_nested(states) else [states]

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "context_dim": self.context_dim,
        }
