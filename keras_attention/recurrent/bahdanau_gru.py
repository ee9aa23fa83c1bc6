"""The gated unit of RNNsearch, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    z_i  = sigmoid(W_z x_i + U_z s_{i-1} + b_z)
    r_i  = sigmoid(W_r x_i + U_r s_{i-1} + b_r)
    s~_i = tanh(W x_i + U (r_i * s_{i-1}) + b)
    s_i  = (1 - z_i) * s_{i-1} + z_i * s~_i                       appendix A.1.1

`keras.layers.GRU` blends the other way round, z * s_{i-1} + (1 - z) * s~_i (Cho et al. 2014),
and by default resets after the product. Code name -> paper name: `state` -> s_{i-1}; `kernel`
holds W_z, W_r, W side by side, `recurrent_kernel` U_z, U_r, U, `bias` b_z, b_r, b.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.checks import check_ready
from keras_attention.layer import Layer
from keras_attention.recurrent.gated_cell import GatedCell
from keras_attention.recurrent.gru_sequence import gates, gru_sequence


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauGRUCell(GatedCell):
    """One step of the gated unit of RNNsearch, for `keras.layers.RNN` or `AttentionRNN`.

    Its input projection can be taken out of a loop: `update(project(inputs), states)`
    is `call`, and `project` works on all steps at once.

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

    Returns:
        The new state `(batch, units)` and the list that holds it.

    Raises:
        ValueError: If `units` is not a positive int.

    Example:

    >>> cell = BahdanauGRUCell(units=4)
    >>> output, states = cell(keras.ops.ones((2, 3)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 4)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.1.
    """

    def project(self, inputs, first=0):
        """Returns the input's part of the gates and the candidate, `(..., 3 * units)`.

        Args:
            inputs: Float tensor `(batch, dim)` or `(batch, time, dim)`, all of the cell's
                input or a slice of its last axis.
            first: Where the slice begins; the slice that begins at 0 brings the bias.
        """
        check_ready(self, inputs)
        kernel = ops.cast(self.kernel, self.compute_dtype)[first : first + inputs.shape[-1]]
        inputs = ops.cast(inputs, self.compute_dtype)
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))
        projected = ops.matmul(flat, kernel)
        if first == 0 and self.bias is not None:
            projected = projected + ops.cast(self.bias, self.compute_dtype)
        return ops.reshape(projected, (*ops.shape(inputs)[:-1], 3 * self.units))

    def update(self, projected, states):
        """Returns the new state and the list that holds it, from a projected input."""
        kernel = ops.cast(self.recurrent_kernel, self.compute_dtype)
        state = ops.cast(states[0], self.compute_dtype)
        update, _, candidate = gates(projected, state, kernel)
        state = state + update * (candidate - state)
        return state, [state]


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauGRU(Layer):
    """Runs the gated unit of RNNsearch over a sequence, with its input projected at once.

    The encoder of RNNsearch is `keras.layers.Bidirectional(BahdanauGRU(units,
    return_sequences=True, return_state=True))`. Unlike `keras.layers.GRU` it trains under
    `jit_compile=True` on every device.

    Args:
        units: Positive int, the size of the state.
        return_sequences: Whether to return all states or the last one.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to read the sequence from its end. The states come in the
            order in which they were computed, as Keras' own layers return them.
        use_bias, kernel_initializer, recurrent_initializer, bias_initializer: See
            `BahdanauGRUCell`.

    Call arguments:
        sequences: Float tensor `(batch, time, dim)`.
        initial_state: Optional float tensor `(batch, units)`, or a list of one; zeros by
            default.
        mask: Optional boolean `(batch, time)`. A masked step keeps the state.
        sequences_mask: Used where `mask` is None: Keras puts the mask attached to `sequences` here
            when the layer is called with another tensor too.

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

    def __init__(
        self,
        units,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.cell = BahdanauGRUCell(
            checks.positive_int("BahdanauGRU", "units", units),
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            dtype=self.dtype_policy,
            name="cell",
        )
        self.units = self.cell.units
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.stateful, self.states = False, None  # read by keras.layers.Bidirectional

    def build(self, sequences_shape, initial_state_shape=None):
        if len(sequences_shape) != 3:
            raise ValueError(
                "BahdanauGRU expects `sequences` of shape (batch, time, dim). "
                f"Received: sequences.shape={tuple(sequences_shape)}"
            )
        if not self.cell.built:
            self.cell.build((sequences_shape[0], sequences_shape[-1]))
        self.built = True

    def call(self, sequences, initial_state=None, mask=None, sequences_mask=None, training=None):
        masks = {"mask": mask, "sequences_mask": sequences_mask}
        mask = checks.own_mask("BahdanauGRU", sequences.shape[:2], "(batch, time)", **masks)
        if initial_state is None:
            state = self.cell.get_initial_state(ops.shape(sequences)[0])
        else:
            state = [
                initial_state[0] if isinstance(initial_state, (list, tuple)) else initial_state
            ]
            checks.rank("BahdanauGRU", "initial_state", state[0], (2,), "(batch, units)")
        if mask is not None:
            sequences = ops.where(mask[:, :, None], sequences, 0)  # padding may hold NaN
        projected = self.cell.project(sequences)
        kept = mask
        if self.go_backwards:
            projected = ops.flip(projected, 1)
            kept = None if mask is None else ops.flip(mask, 1)
        kernel = ops.cast(self.cell.recurrent_kernel, self.compute_dtype)
        states = gru_sequence(projected, ops.cast(state[0], self.compute_dtype), kernel, kept)
        last = states[:, -1]
        if kept is not None:
            states = ops.where(kept[:, :, None], states, 0)
        output = states if self.return_sequences else last
        return (output, last) if self.return_state else output

    def compute_output_shape(self, sequences_shape, initial_state_shape=None):
        batch, time = tuple(sequences_shape)[:2]
        last = (batch, self.units)
        output = (batch, time, self.units) if self.return_sequences else last
        return (output, last) if self.return_state else output

    def compute_mask(self, sequences, mask=None):
        output_mask = mask if self.return_sequences else None
        return [output_mask, None] if self.return_state else output_mask

    def get_config(self):
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
