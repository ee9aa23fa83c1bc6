"""A cell that does nothing in its first step, for readouts that come before the update."""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.recomputation import Recomputable
from keras_attention.recurrent.cells import CellAdapter, step_spec


@keras.saving.register_keras_serializable(package="keras_attention")
class SkipFirstUpdate(Recomputable, keras.layers.Layer):
    """Wraps a cell so that its first step copies the state.

    RNNsearch as its authors wrote it reads out (s_{i-1}, y_{i-1}, c_i) and only then
    updates s_i = f(s_{i-1}, y_i, c_i). Seen from the next step, which knows y_i, the
    update comes first, except that the first step has nothing to update with.

    Args:
        cell: Any Keras cell.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`.
        states: The cell's states, and last a tensor `(batch, 1)`, 0 before the first step
            and 1 after it.

    Returns:
        What the cell returns (before the first step the first tensor of its state, for there is
        nothing else yet), and the new states.

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

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        self.adapter = CellAdapter("SkipFirstUpdate", cell)
        self.cell = self.adapter.cell
        self.state_size = [*self.adapter.state_size, 1]
        self.output_size = self.adapter.output_dim
        if self.adapter.hoists:
            self.project, self.update = self.cell.project, self._update

    @property
    def kernel(self):
        """The input kernel of a cell whose projection can be hoisted."""
        return self.cell.kernel

    def build(self, input_shape):
        checks.cell_inputs("SkipFirstUpdate", input_shape)
        self.adapter.build(input_shape)
        self.built = True

    def _update(self, projected, states):
        *inner, started = states
        return self._keep_first(*self.cell.update(projected, inner), inner, started)

    def call(self, inputs, states, training=None):
        *inner, started = states
        output, new_states = self.adapter.step(
            self.adapter.project(inputs), None, list(inner), training=training
        )
        return self._keep_first(output, new_states, inner, started)

    def compute_output_spec(self, inputs, states, training=None):
        return step_spec(self, inputs, states)

    @staticmethod
    def _keep_first(output, new_states, states, started):
        output = ops.where(started > 0, output, ops.cast(states[0], output.dtype))
        kept = [
            ops.where(started > 0, new, old) for new, old in zip(new_states, states, strict=True)
        ]
        return output, [*kept, ops.ones_like(started)]

    def get_initial_state(self, batch_size=None):
        states = self.cell.get_initial_state(batch_size=batch_size)
        states = list(states) if keras.tree.is_nested(states) else [states]
        return [*states, ops.zeros((batch_size, 1), dtype=self.compute_dtype)]

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
        }
