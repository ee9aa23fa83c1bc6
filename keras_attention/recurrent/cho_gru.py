"""The gated unit of the RNN encoder-decoder, Cho et al. 2014 (https://arxiv.org/abs/1406.1078).

    z = sigmoid(W_z x + U_z h + C_z c)
    r = sigmoid(W_r x + U_r h + C_r c)
    q = tanh(W x + r * (U h + C c))             appendix A.1.2; the gate covers the context
    q = tanh(W x + U (r * h) + C c)             the authors' code
    h' = z * h + (1 - z) * q

Code name -> paper name: `state` -> h, `candidate` -> q; the input is [x; c], `context_dim` the
width of c; `kernel` contains W_z, W_r, W side by side above C_z, C_r, C, `recurrent_kernel` U_z,
U_r, U, `bias` one number per unit for each, which the paper omits.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.recurrent._gated_cell import GatedCell
from keras_attention.validation import check_ready


def cho_gru_update(
    projected: TensorLike,
    inside: TensorLike | None,
    state: TensorDict,
    recurrent_kernel: TensorLike,
) -> Tensor:
    """Returns the new state `(batch, units)`.

    Args:
        projected: Float tensor `(batch, 3 * units)`: the contributions of x and c to z, r and q,
            except for the part that the reset gate covers.
        inside: Float tensor `(batch, units)`, the term that the reset gate covers beside U h; None
            if it covers h alone, before the product with U.
        state: Float tensor `(batch, units)`.
        recurrent_kernel: Float tensor `(units, 3 * units)`.
    """
    units = recurrent_kernel.shape[0]
    if inside is None:
        both = ops.matmul(state, recurrent_kernel[:, : 2 * units])
    else:
        recurrent = ops.matmul(state, recurrent_kernel)
        both, inside = recurrent[:, : 2 * units], recurrent[:, 2 * units :] + inside
    both = ops.sigmoid(projected[:, : 2 * units] + both)
    update, reset = both[:, :units], both[:, units:]
    if inside is None:
        covered = ops.matmul(reset * state, recurrent_kernel[:, 2 * units :])
    else:
        covered = reset * inside
    candidate = ops.tanh(projected[:, 2 * units :] + covered)
    return candidate + update * (state - candidate)


@keras.saving.register_keras_serializable(package="keras_attention")
class ChoGRUCell(GatedCell):
    """One step of the gated unit of Cho et al., with a context in every gate.

    Its input projection may run outside of a loop, that of x for all steps and that of c once:
    `update(project(x) + project(c, first=x_dim), states)` equals `call`.

    Args:
        units: Positive int, the size of the state.
        context_dim: Int of at least 0, the number of last input entries that are the context
            c; 0 for a unit without one.
        reset_covers_context: True for the paper's form, in which the reset gate covers U h + C c;
            False for that of the authors' code, in which it covers h.
        use_bias: Whether the gates and the candidate have biases.
        kernel_initializer: Initializer of the input kernel `(input_dim, 3 * units)`.
        recurrent_initializer: Initializer of each of the three recurrent matrices
            `(units, units)`.
        bias_initializer: Initializer of the bias.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`: [x; c].
        states: List of one float tensor `(batch, units)`.
        training: Accepted, as by every cell, and ignored: there is no dropout.

    Returns:
        The new state `(batch, units)` and a list of it.

    Raises:
        ValueError: If an argument is invalid, or the input is too narrow to contain x.

    Example:

    >>> cell = ChoGRUCell(units=4, context_dim=2)
    >>> output, states = cell(keras.ops.ones((2, 3 + 2)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 4)

    Reference: Cho et al. 2014, https://arxiv.org/abs/1406.1078, appendix A.1.2.
    """

    def __init__(
        self,
        units: int,
        context_dim: int = 0,
        reset_covers_context: bool = True,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            **kwargs,
        )
        self.context_dim: int = validation.check_int_at_least(
            "ChoGRUCell", "context_dim", context_dim, 0
        )
        self.reset_covers_context: bool = bool(reset_covers_context)

    def check_inputs(self, inputs_shape: Shape) -> None:
        validation.check_axes("ChoGRUCell", "inputs", inputs_shape, "(batch, input_dim)")
        if inputs_shape[-1] <= self.context_dim:
            raise ValueError(
                "ChoGRUCell expects inputs [x; c] of known width, c the last "
                f"context_dim={self.context_dim} entries and x at least one. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        super().check_inputs(inputs_shape)

    def project(self, inputs: TensorLike, first: int = 0) -> Tensor:
        """Returns the input's contribution to the gates and the candidate.

        Args:
            inputs: Float tensor `(batch, dim)` or `(batch, time, dim)`, all of the cell's
                input or a slice of its last axis.
            first: Start index of the slice; the slice at 0 includes the bias.

        Returns:
            Tensor `(..., 4 * units)`: for z, for r, and for q outside and inside of the part that
            the reset gate covers. If the gate covers h alone, the last part is missing.
        """
        check_ready(self, inputs)
        last = first + inputs.shape[-1]
        kernel = ops.cast(self.kernel, self.compute_dtype)[first:last]
        bias = None if first or self.bias is None else ops.cast(self.bias, self.compute_dtype)
        if self.reset_covers_context:
            # x contributes nothing inside of the reset gate, c nothing outside.
            of_context = max(0, min(last, self.kernel.shape[0] - self.context_dim) - first)
            outside, candidate = kernel[:, : 2 * self.units], kernel[:, 2 * self.units :]
            x_part = ops.pad(candidate[:of_context], ((0, 0), (0, self.units)))
            c_part = ops.pad(candidate[of_context:], ((0, 0), (self.units, 0)))
            kernel = ops.concatenate([outside, ops.concatenate([x_part, c_part], 0)], 1)
            bias = None if bias is None else ops.pad(bias, ((0, self.units),))
        inputs = ops.cast(inputs, self.compute_dtype)
        projected = ops.matmul(ops.reshape(inputs, (-1, inputs.shape[-1])), kernel)
        projected = projected if bias is None else projected + bias
        return ops.reshape(projected, (*get_shape(inputs)[:-1], kernel.shape[-1]))

    def update(
        self, projected: TensorLike, states: Sequence[TensorLike]
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the new state and a list of it, from a projected input."""
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)
        state = ops.cast(states[0], self.compute_dtype)
        inside = projected[:, 3 * self.units :] if self.reset_covers_context else None
        state = cho_gru_update(projected[:, : 3 * self.units], inside, state, kernel)
        return state, [state]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "context_dim": self.context_dim,
            "reset_covers_context": self.reset_covers_context,
        }
