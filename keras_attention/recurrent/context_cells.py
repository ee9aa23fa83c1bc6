"""Three places where a recurrent network can be told something more, z_t, at every step.

    o_t, h_t = cell(x_t, h_{t-1})
    ADD     o_t <- o_t + W_z z_t            W_z only where the widths differ: the output
    CONCAT  h_t <- W_c [h_t; z_t]           what is read out and, if carried, remembered
    MLP     o_t, h_t = cell([x_t; z_t], h_{t-1})                      the update itself

For a plain cell the last is h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh + W_zh z_t + b_zh):
the rows of its kernel are W_ih above W_zh, its bias is the sum of the three.

CONCAT with tanh is the attentional vector of Luong et al. 2015 (https://arxiv.org/abs/1508.04025,
equation 5), MLP the way in which Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473, A.2.2)
feed a context. Code name -> name above: `context` -> z_t, `context_dim` -> its width, `kernel` ->
W_z or W_c, `output` -> o_t, and h_t, which is the output of a plain cell.
"""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.recurrent.cells import CellAdapter


class ContextCell(keras.layers.Layer):
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


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextAdd(ContextCell):
    """Adds z_t to the output of a cell, and leaves what it remembers alone.

    Use it where z_t bears on what is said now and on nothing later. It runs in
    `keras.layers.RNN`, over sequences concatenated on the last axis, and in
    `AttentionRNN(order="bahdanau")`, which feeds `[x_t; context]`.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t. Where it is not that of the output, z_t
            is projected.
        kernel_initializer: Initializer of the projection.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input has no room for x_t.

    Example:

    >>> cell = ContextAdd(keras.layers.SimpleRNNCell(4, kernel_initializer="zeros"), 4)
    >>> output, states = cell(keras.ops.ones((2, 3 + 4)), [keras.ops.zeros((2, 4))])
    >>> float(keras.ops.max(output)), float(keras.ops.max(states[0]))
    (1.0, 0.0)
    """

    def __init__(self, cell, context_dim, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(cell, context_dim, **kwargs)
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = None
        if self.context_dim != self.output_size:
            self.kernel = self.add_weight(
                (self.context_dim, self.output_size), self.kernel_initializer, name="kernel"
            )

    def finish(self, output, context, states):
        if self.kernel is not None:
            context = ops.matmul(context, ops.cast(self.kernel, context.dtype))
        return output + ops.cast(context, output.dtype), states

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextConcat(ContextCell):
    """Reads out a cell's output together with z_t, and may remember the result.

    Use it where z_t should mix with the output. With `activation="tanh"` and z_t a context of
    attention the result is Luong's attentional vector. It runs where `ContextAdd` does.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t.
        activation: Activation of the result; None for a linear one.
        carry: Whether the result also takes the place of the first tensor of the state.
        kernel_initializer: Initializer of W_c, `(units + context_dim, units)`.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input has no room for x_t.

    Example:

    >>> cell = ContextConcat(keras.layers.GRUCell(4), 5, activation="tanh", carry=True)
    >>> output, states = cell(keras.ops.ones((2, 3 + 5)), [keras.ops.zeros((2, 4))])
    >>> tuple(output.shape), bool(keras.ops.all(output == states[0]))
    ((2, 4), True)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 5.
    """

    def __init__(
        self,
        cell,
        context_dim,
        activation=None,
        carry=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(cell, context_dim, **kwargs)
        self.activation = keras.activations.get(activation)
        self.carry = carry
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = self.add_weight(
            (self.output_size + self.context_dim, self.output_size),
            self.kernel_initializer,
            name="kernel",
        )

    def finish(self, output, context, states):
        pair = ops.concatenate([output, ops.cast(context, output.dtype)], axis=-1)
        output = self.activation(ops.matmul(pair, ops.cast(self.kernel, output.dtype)))
        if self.carry:
            states = [ops.cast(output, states[0].dtype), *states[1:]]
        return output, states

    def get_config(self):
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "carry": self.carry,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class ContextMLP(ContextCell):
    """Lets z_t take part in the update of a cell, before its nonlinearity.

    Use it where z_t should shape what is remembered; attention before the update
    (`AttentionRNN(order="bahdanau")`) is this with z_t the context. The cell reads `[x_t; z_t]`
    with one kernel, whose last `context_dim` rows are W_zh; in a gated cell z_t reaches every
    gate. It runs where `ContextAdd` does.

    Args:
        cell: Any Keras cell.
        context_dim: Positive int, the width of z_t.

    Call arguments:
        inputs: Float tensor `(batch, input_dim + context_dim)`: `[x_t; z_t]`.
        states: The states of `cell`.
        training: Passed to `cell`, if it takes it.

    Returns:
        The output `(batch, units)`, and the new states.

    Raises:
        ValueError: If `cell` is not a Keras cell, or the input has no room for x_t.

    Example:

    >>> cell = ContextMLP(keras.layers.SimpleRNNCell(4), 5)
    >>> output, states = cell(keras.ops.ones((2, 3 + 5)), [keras.ops.zeros((2, 4))])
    >>> tuple(output.shape), tuple(cell.cell.kernel.shape)
    ((2, 4), (8, 4))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.2.2.
    """

    reads_context = True
