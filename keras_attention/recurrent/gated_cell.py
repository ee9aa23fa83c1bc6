"""What the two gated units, of Cho et al. 2014 and of Bahdanau et al. 2015, have in common.

    z = sigmoid(W_z x + U_z h + b_z),   r and q likewise        their equations: `cho_gru`,
                                                                `bahdanau_gru`
`kernel` holds W_z, W_r, W side by side, `recurrent_kernel` U_z, U_r, U, `bias` b_z, b_r, b.
"""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import drawn_wide, side_by_side
from keras_attention.recomputation import Recomputable


class GatedCell(Recomputable, keras.layers.Layer):
    """A cell with one state, two gates and a candidate; the base of both units.

    A subclass defines `project(inputs, first)`, which can be taken out of a loop, and
    `update(projected, states)`; `call` is the two in a row.
    """

    def __init__(
        self,
        units,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = checks.positive_int(type(self).__name__, "units", units)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.state_size = [self.units]
        self.output_size = self.units

    def build(self, input_shape):
        checks.cell_inputs(type(self).__name__, input_shape)
        self.kernel = self.add_weight(
            (input_shape[-1], 3 * self.units),
            side_by_side(self.kernel_initializer, 3),
            name="kernel",
        )
        self.recurrent_kernel = self.add_weight(
            (self.units, 3 * self.units),
            drawn_wide(side_by_side(self.recurrent_initializer, 3)),
            name="recurrent_kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((3 * self.units,), self.bias_initializer, name="bias")
        self.built = True

    def project(self, inputs, first=0):
        """Returns the input's part of the gates and the candidate."""
        raise NotImplementedError

    def update(self, projected, states):
        """Returns the new state and the list that holds it, from a projected input."""
        raise NotImplementedError

    def call(self, inputs, states, training=None):
        return self.update(self.project(inputs), states)

    def get_initial_state(self, batch_size=None):
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
