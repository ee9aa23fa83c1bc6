"""Base class of the gated units of Cho et al. 2014 and of Bahdanau et al. 2015.

    z = sigmoid(W_z x + U_z h + b_z),   r and q likewise        their equations: `cho_gru`,
                                                                `bahdanau_gru`
`kernel` contains W_z, W_r, W side by side, `recurrent_kernel` U_z, U_r, U, `bias` b_z, b_r, b.
"""

from collections.abc import Sequence
from typing import Unpack

from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_cell import Cell, get_shapes
from keras_attention._utils.initializers import column_block_initializer, float32_initializer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorLike,
)


class GatedCell(Cell):
    """A cell with one state, two gates and a candidate; abstract.

    A subclass defines `project(inputs, first)`, which may run outside of a loop, and
    `update(projected, states)`; `call` runs one after the other.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.units = validation.check_positive_int(type(self).__name__, "units", units)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.state_size = [self.units]
        self.output_size = self.units

    def build(self, input_shape: Shape) -> None:
        self.check_inputs(input_shape)
        self.kernel = self.add_weight(
            (input_shape[-1], 3 * self.units),
            column_block_initializer(self.kernel_initializer, 3),
            name="kernel",
        )
        self.recurrent_kernel = self.add_weight(
            (self.units, 3 * self.units),
            float32_initializer(column_block_initializer(self.recurrent_initializer, 3)),
            name="recurrent_kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((3 * self.units,), self.bias_initializer, name="bias")
        self.built = True

    def project(self, inputs: TensorLike, first: int = 0) -> Tensor:
        """Returns the contribution of the input to the gates and the candidate."""
        raise NotImplementedError

    def update(
        self, projected: TensorLike, states: Sequence[TensorLike]
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the new state and a list of it, from a projected input."""
        raise NotImplementedError

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool | None = None
    ) -> tuple[TensorLike, list[TensorLike]]:
        self.check_step(inputs.shape, get_shapes(states))
        return self.update(self.project(inputs), states)

    def get_initial_state(self, batch_size: Size | None = None) -> list[Tensor]:
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
