"""The gated unit of RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    z_i  = sigmoid(W_z x_i + U_z s_{i-1} + b_z)
    r_i  = sigmoid(W_r x_i + U_r s_{i-1} + b_r)
    s~_i = tanh(W x_i + U (r_i * s_{i-1}) + b)
    s_i  = (1 - z_i) * s_{i-1} + z_i * s~_i                       appendix A.1.1

`keras.layers.GRU` swaps the roles of z and 1 - z, z * s_{i-1} + (1 - z) * s~_i (Cho et al. 2014),
and by default applies the reset gate after the product. Code name -> paper name: `state` ->
s_{i-1}; `kernel` contains W_z, W_r, W side by side, `recurrent_kernel` U_z, U_r, U, `bias` b_z,
b_r, b.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.kernels import execution_mode
from keras_attention.kernels.gru_sequence import gru_gates, gru_sequence, split_kernel
from keras_attention.recurrent._gated_cell import GatedCell
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauGRUCell(GatedCell):
    """One step of the gated unit of RNNsearch, for `keras.layers.RNN` or `AttentionRNN`.

    Its input projection may run outside of a loop: `update(project(inputs), states)`
    equals `call`, and `project` works on all steps at once.

    Args:
        units: Positive int, the size of the state.
        use_bias: Whether the gates and the candidate have biases.
        kernel_initializer: Initializer of the input kernel `(input_dim, 3 * units)`.
        recurrent_initializer: Initializer of each of the three recurrent matrices
            `(units, units)`.
        bias_initializer: Initializer of the bias.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`.
        states: List of one float tensor `(batch, units)`.
        training: Accepted, as by every cell, and ignored: there is no dropout.

    Returns:
        The new state `(batch, units)` and a list of it.

    Raises:
        ValueError: If `units` is not a positive int.

    Example:

    >>> cell = BahdanauGRUCell(units=4)
    >>> output, states = cell(keras.ops.ones((2, 3)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 4)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.1.
    """

    def project(self, inputs: TensorLike, first: int = 0) -> Tensor:
        """Returns the input's contribution to gates and candidate, `(..., 3 * units)`.

        Args:
            inputs: Float tensor `(batch, dim)` or `(batch, time, dim)`, all of the cell's
                input or a slice of its last axis.
            first: Start index of the slice; the slice at 0 includes the bias.
        """
        check_ready(self, inputs)
        kernel = ops.cast(self.kernel, self.compute_dtype)
        if inputs.shape[-1] != kernel.shape[0]:
            kernel = kernel[first : first + inputs.shape[-1]]
        inputs = ops.cast(inputs, self.compute_dtype)
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))
        projected = ops.matmul(flat, kernel)
        if first == 0 and self.bias is not None:
            projected = projected + ops.cast(self.bias, self.compute_dtype)
        return ops.reshape(projected, (*get_shape(inputs)[:-1], 3 * self.units))

    def update(
        self, projected: TensorLike, states: Sequence[TensorLike]
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the new state and a list of it, from a projected input."""
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)
        state = ops.cast(states[0], self.compute_dtype)
        gates_kernel, candidate_kernel = split_kernel(kernel)
        gates = ops.matmul(state, gates_kernel)
        if execution_mode.has_gpu():  # a larger product takes less time than a copy of U_c
            candidate_kernel = kernel
        update, _, candidate = gru_gates(projected, gates, state, candidate_kernel)
        state = state + update * (candidate - state)
        return state, [state]


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauGRU(Layer):
    """Runs the gated unit of RNNsearch over a sequence, with its inputs projected at once.

    The encoder of RNNsearch is `keras.layers.Bidirectional(BahdanauGRU(units,
    return_sequences=True, return_state=True))`. Unlike `keras.layers.GRU` it trains under
    `jit_compile=True` on every device.

    Args:
        units: Positive int, the size of the state.
        return_sequences: Whether to return all states or the last one.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to process the sequence in reverse. The states are in the
            order in which they were computed, as in Keras' own layers.
        use_bias, kernel_initializer, recurrent_initializer, bias_initializer: See
            `BahdanauGRUCell`.

    Call arguments:
        sequences: Float tensor `(batch, time, dim)`.
        initial_state: Optional float tensor `(batch, units)`, or a list of one; zeros by
            default.
        mask: Optional boolean `(batch, time)`. A masked step keeps the state.
        sequences_mask: Used if `mask` is None: Keras passes the mask attached to `sequences` here
            when the layer is called with another tensor too.
        training: Accepted, as by every recurrent layer, and ignored: there is no dropout.

    Returns:
        States `(batch, time, units)`, or the last one `(batch, units)`, and with
        `return_state` also the last one.

    Raises:
        ValueError: If `units` is not a positive int, or a shape does not fit.

    Example:

    >>> layer = BahdanauGRU(units=4, return_sequences=True)
    >>> tuple(layer(keras.ops.ones((2, 5, 3))).shape)
    (2, 5, 4)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.1.
    """

    stateful: bool
    states: None

    def __init__(
        self,
        units: int,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.cell: BahdanauGRUCell = BahdanauGRUCell(
            validation.check_positive_int("BahdanauGRU", "units", units),
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            dtype=self.dtype_policy,
            name="cell",
        )
        self.units: int = self.cell.units
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.stateful, self.states = False, None  # keras.layers.Bidirectional accesses these

    def build(
        self, sequences_shape: Shape, initial_state_shape: Shape | Sequence[Shape] | None = None
    ) -> None:
        self._check_shapes(sequences_shape, initial_state_shape)
        if not self.cell.built:
            self.cell.build((sequences_shape[0], sequences_shape[-1]))
        self.built = True

    def _check_shapes(self, sequences_shape, initial_state_shape=None):
        axes = "(batch, time, dim)"
        validation.check_axes("BahdanauGRU", "sequences", sequences_shape, axes, known_width=False)
        validation.check_built_dims(self, sequences=sequences_shape)
        if initial_state_shape is None:
            return
        if initial_state_shape and isinstance(initial_state_shape[0], (list, tuple)):
            initial_state_shape = initial_state_shape[0]
        shapes = {"sequences": sequences_shape, "initial_state": initial_state_shape}
        validation.check_rank(
            "BahdanauGRU", "initial_state", initial_state_shape, (2,), "(batch, units)"
        )
        validation.check_same_size("BahdanauGRU", 0, **shapes)
        if initial_state_shape[1] not in (None, self.units):
            raise ValueError(
                f"BahdanauGRU expects `initial_state` of shape (batch, {self.units}). "
                f"Received: initial_state.shape={tuple(initial_state_shape)}"
            )

    def call(
        self,
        sequences: Tensor,
        initial_state: Tensor | None = None,
        mask: Tensor | None = None,
        sequences_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Outputs:
        self._check_shapes(sequences.shape)
        mask = validation.resolve_mask(self, sequences, mask=mask, sequences_mask=sequences_mask)
        if initial_state is None:
            state = self.cell.get_initial_state(get_shape(sequences)[0])
        else:
            state = [
                initial_state[0] if isinstance(initial_state, (list, tuple)) else initial_state
            ]
            self._check_shapes(sequences.shape, state[0].shape)
        if mask is not None:
            sequences = ops.where(mask[:, :, None], sequences, 0)  # padding may be NaN
        projected = self.cell.project(sequences)
        valid = mask
        if self.go_backwards:
            projected = ops.flip(projected, 1)
            valid = None if mask is None else ops.flip(mask, 1)
        kernel = ops.cast(self.cell.recurrent_kernel, self.compute_dtype)
        states = gru_sequence(projected, ops.cast(state[0], self.compute_dtype), kernel, valid)
        last = states[:, -1]
        if valid is not None:
            states = ops.where(valid[:, :, None], states, 0)
        output = states if self.return_sequences else last
        return (output, last) if self.return_state else output

    def compute_output_shape(
        self, sequences_shape: Shape, initial_state_shape: Shape | Sequence[Shape] | None = None
    ) -> OutputShape:
        self._check_shapes(sequences_shape, initial_state_shape)
        batch, time = tuple(sequences_shape)[:2]
        last = (batch, self.units)
        output = (batch, time, self.units) if self.return_sequences else last
        return (output, last) if self.return_state else output

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        state = call.initial_state
        state = state[0] if isinstance(state, (list, tuple)) else state
        state_shape = None if state is None else state.shape
        shapes = self.compute_output_shape(call.sequences.shape, state_shape)
        masks = {"mask": call.mask, "sequences_mask": call.sequences_mask}
        validation.resolve_mask(self, call.sequences, **masks)
        if self.return_state:
            return tuple(keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)
        return keras.KerasTensor(shapes, self.compute_dtype)

    def compute_mask(self, sequences: Tensor, mask: Tensor | None = None) -> Mask:
        output_mask = mask if self.return_sequences else None
        return [output_mask, None] if self.return_state else output_mask

    def get_config(self) -> Config:
        config = self.cell.get_config()
        shared = (
            "use_bias",
            "kernel_initializer",
            "recurrent_initializer",
            "bias_initializer",
        )
        return {
            **super().get_config(),
            "units": self.units,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "go_backwards": self.go_backwards,
            **{key: config[key] for key in shared},
        }
