"""The Neural Turing Machine as a recurrent cell, Graves et al. 2014
(https://arxiv.org/abs/1410.5401).

    u_t      = [x_t; r_{t-1} of every read head]      controller -> h_t
    row_t    = W_head h_t + b_head                    what the heads are told, see `heads`
    w_t      = address(row_t, M_{t-1}, w_{t-1})       see `addressing`
    M_t, r_t = write, then read                       see `access`
    y_t      = sigmoid(W_out [h_t; r_t] + b_out)

All heads address the memory that the step before left. By default the write heads then write and
the read heads read what is written; `read_from="previous"` reads M_{t-1} instead, as two
well-known implementations do.
"""

import keras
from keras import activations, initializers, ops

from keras_attention import checks
from keras_attention.checks import check_ready
from keras_attention.initialization import independent
from keras_attention.loop import choose_rows
from keras_attention.memory import controller as controllers
from keras_attention.memory import shifts
from keras_attention.memory.access import read, write
from keras_attention.memory.addressing import content_weights, interpolate, sharpen
from keras_attention.memory.heads import Heads
from keras_attention.memory.initial_state import InitialState
from keras_attention.memory.state import pack, state_sizes, unpack
from keras_attention.memory.written_out import product
from keras_attention.precision import wide_dtype
from keras_attention.recomputation import Recomputable


@keras.saving.register_keras_serializable(package="keras_attention")
class NTMCell(Recomputable, keras.layers.Layer):
    """One step of a Neural Turing Machine: a controller beside a memory it reads and writes.

    Use it where a network must store things and find them again, by content or in order:
    copying, sorting, looking up. `NTM(cell)` runs it over a sequence, fast and with the history
    of the heads; `keras.layers.RNN(cell)` runs it too, and anything else that takes a cell.

    Args:
        output_dim: Positive int, the size of an output.
        slots: Positive int, the number of memory slots.
        slot_dim: Positive int, the size of a slot.
        controller: A Keras recurrent cell or layer from `(batch, input_dim + num_read_heads *
            slot_dim)` to `(batch, any)`; or "lstm" or "feed_forward", the paper's of 100 units.
        num_read_heads: Positive int.
        num_write_heads: Positive int.
        shift: "softmax", "scalar", `SoftmaxShift(reach)` or `ScalarShift(reach)`: how the heads
            move along the slots.
        read_from: "written", the memory after this step's writing, or "previous".
        head_activation: "tanh" or "linear", of keys and additions.
        activation: Activation of the output; None gives logits.
        initial_memory: A number for every element of the memory, or "learned".
        initial_reads: "learned" or "zeros".
        initial_weights: "learned", beginning on slot 0, or "first": all heads on slot 0.
        initial_controller: "zeros" or "learned".
        kernel_initializer: Initializer of both kernels.
        bias_initializer: Initializer of both biases.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`.
        states: List of float tensors `(batch, size)`, as `get_initial_state` returns it.
        training: Whether the controller's dropout is applied.

    Returns:
        The output `(batch, output_dim)` and the list of new states.

    State: inside `keras.layers.RNN` a flat list of `(batch, size)` tensors, in the order of
        `state_size`. Where all weights of a row are 0, as in `get_initial_state` and after the
        layer's `reset_state`, the row starts: from the weights the cell has then. `start` and
        `step` speak of the same as a dict: `controller`, the list of the controller's states;
        `memory` `(batch, slots, slot_dim)`; `reads` `(batch, num_read_heads, slot_dim)`;
        `read_weights` `(batch, num_read_heads, slots)`; `write_weights`
        `(batch, num_write_heads, slots)`. All are at least float32.

    Weights: the controller's; `head_kernel` `(controller units, head width)` and `head_bias`,
        where the head width is `(slot_dim + 3 + shift.size)` a head and `2 * slot_dim` more a
        write head; `output_kernel` `(controller units + num_read_heads * slot_dim, output_dim)`
        and `output_bias`; then what is learned of the initial state.

    Raises:
        ValueError: If an argument lies outside its range, the shifts do not fit into the slots,
            the controller's input or output does not fit, a state has another structure, or
            the controller has a dropout that `keras.layers.RNN` cannot draw: `NTM` can.

    Masking: reads no mask; what runs the cell copies the state in masked steps.

    Example:

    >>> cell = NTMCell(output_dim=3, slots=16, slot_dim=5)
    >>> cell.build((None, 4))
    >>> output, states = cell(keras.ops.ones((2, 4)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 3)
    >>> tuple(keras.layers.RNN(cell, return_sequences=True)(keras.ops.ones((2, 7, 4))).shape)
    (2, 7, 3)

    Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, sections 3 and 4.
    """

    def __init__(
        self,
        output_dim,
        slots=128,
        slot_dim=20,
        controller="lstm",
        num_read_heads=1,
        num_write_heads=1,
        shift="softmax",
        read_from="written",
        head_activation="tanh",
        activation="sigmoid",
        initial_memory=1e-6,
        initial_reads="learned",
        initial_weights="learned",
        initial_controller="zeros",
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.autocast = False  # a memory rounded to half precision would forget its constant
        owner = "NTMCell"
        self.output_dim = checks.positive_int(owner, "output_dim", output_dim)
        self.slots = checks.positive_int(owner, "slots", slots)
        self.slot_dim = checks.positive_int(owner, "slot_dim", slot_dim)
        self.num_read_heads = checks.positive_int(owner, "num_read_heads", num_read_heads)
        self.num_write_heads = checks.positive_int(owner, "num_write_heads", num_write_heads)
        self.shift = shifts.get(shift)
        self.shift.check_slots(owner, self.slots)
        self.read_from = checks.one_of(owner, "read_from", read_from, ("written", "previous"))
        self.head_activation = checks.one_of(
            owner, "head_activation", head_activation, ("tanh", "linear")
        )
        self.activation = activations.get(activation)
        self.initial_memory, self.initial_reads = initial_memory, initial_reads
        self.initial_weights, self.initial_controller = initial_weights, initial_controller
        self.initial_state = InitialState(
            owner, initial_memory, initial_reads, initial_weights, initial_controller
        )
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.controller = controllers.get(owner, controller, self.dtype_policy)
        self.control = controllers.Control(owner, self.controller)
        self.heads = Heads(
            self.num_read_heads,
            self.num_write_heads,
            self.slot_dim,
            self.shift,
            self.head_activation == "tanh",
        )

    @property
    def output_size(self):
        """The size of an output, as `keras.layers.RNN` asks for it."""
        return self.output_dim

    @property
    def state_size(self):
        """The sizes of the states in a flat list: controller, memory, reads, weights."""
        return state_sizes(self)

    def build(self, input_shape):
        checks.cell_inputs("NTMCell", input_shape)
        self.input_dim = input_shape[-1]
        units = self.control.build((input_shape[0], self.fed_dim))
        self.head_kernel = self.add_weight(
            (units, self.heads.width), self.kernel_initializer, name="head_kernel"
        )
        self.head_bias = self.add_weight(
            (self.heads.width,), self.bias_initializer, name="head_bias"
        )
        wide = units + self.num_read_heads * self.slot_dim
        self.output_kernel = self.add_weight(
            (wide, self.output_dim), independent(self.kernel_initializer, 1), name="output_kernel"
        )
        self.output_bias = self.add_weight(
            (self.output_dim,), independent(self.bias_initializer, 1), name="output_bias"
        )
        self.initial_state.build(self, self.control.state_sizes)
        self.built = True

    @property
    def fed_dim(self):
        """The width of the controller's input, `[x_t; r_{t-1}]`."""
        return self.input_dim + self.num_read_heads * self.slot_dim

    def start(self, batch_size):
        """Returns the dict of the state before the first step."""
        check_ready(self, None)
        dtype = wide_dtype(self.compute_dtype)
        controller = self.control.start(batch_size, dtype)
        return self.initial_state.make(self, batch_size, controller, dtype)

    def step(self, inputs, state, training=None):
        """Returns the output of one step and the dict of the new state.

        Args:
            inputs: Float tensor `(batch, input_dim)`.
            state: Dict, as `start` returns it.
            training: Whether the controller's dropout is applied.
        """
        hidden, state = self.advance(inputs, state, training)
        return self.read_out(hidden, state["reads"]), state

    def advance(self, inputs, state, training=None):
        """Returns the controller's output and the dict of the new state."""
        check_ready(self, inputs)
        wide, heads = wide_dtype(self.compute_dtype), self.heads
        state = keras.tree.map_structure(lambda part: ops.cast(part, wide), state)
        reads = ops.reshape(state["reads"], (-1, heads.num_read * self.slot_dim))
        fed = ops.concatenate([ops.cast(inputs, wide), reads], axis=-1)
        hidden, controller = self.control.step(
            ops.cast(fed, self.compute_dtype), state["controller"], training
        )
        row = product(hidden, ops.cast(self.head_kernel, self.compute_dtype))
        raw = heads.split(row + ops.cast(self.head_bias, row.dtype))
        told = heads.parameters(raw)
        memory = state["memory"]
        previous = ops.concatenate([state["read_weights"], state["write_weights"]], axis=1)
        content = content_weights(told["key"], told["strength"][:, :, 0], memory)
        gated = interpolate(content, previous, told["gate"][:, :, 0])
        weights = sharpen(self.shift.apply(gated, told["shift"]), told["sharpening"][:, :, 0])
        reading, writing = weights[:, : heads.num_read], weights[:, heads.num_read :]
        written = write(memory, writing, told["erase"], told["addition"])
        return hidden, {
            "controller": controller,
            "memory": written,
            "reads": read(written if self.read_from == "written" else memory, reading),
            "read_weights": reading,
            "write_weights": writing,
        }

    def read_out(self, hidden, reads):
        """Returns outputs `(..., output_dim)` from the controller's and what was read.

        Args:
            hidden: Float tensor `(..., units)`.
            reads: Float tensor `(..., num_read_heads, slot_dim)`.
        """
        wide = wide_dtype(self.compute_dtype)
        width = self.num_read_heads * self.slot_dim
        hidden = ops.cast(hidden, wide)
        flat = ops.concatenate(
            [
                ops.reshape(hidden, (-1, hidden.shape[-1])),
                ops.reshape(ops.cast(reads, wide), (-1, width)),
            ],
            axis=-1,
        )
        outputs = product(flat, ops.cast(self.output_kernel, self.compute_dtype))
        outputs = self.activation(outputs + ops.cast(self.output_bias, outputs.dtype))
        outputs = ops.reshape(outputs, (*ops.shape(hidden)[:-1], self.output_dim))
        return ops.cast(outputs, self.compute_dtype)

    def call(self, inputs, states, training=None):
        state = self._with_starts(unpack(self, states))
        output, state = self.step(inputs, state, training)
        return output, pack(self, state)

    def _with_starts(self, state):
        """Returns the state with that of `start` in the rows that have not started.

        A stateful `keras.layers.RNN` asks for the initial state once, when it is built, and resets
        to zeros: what is learned of the start has to be read in the step.
        """
        weights = state["read_weights"]
        started = ops.any(weights != 0, axis=(1, 2))
        begin = self.start(ops.shape(weights)[0])
        return keras.tree.map_structure(
            lambda now, first: choose_rows(started, ops.cast(now, first.dtype), first), state, begin
        )

    def get_initial_state(self, batch_size=None):
        """Returns zeros, the flat list of a state that has not started."""
        dtype = wide_dtype(self.compute_dtype)
        return [ops.zeros((batch_size, size), dtype=dtype) for size in self.state_size]

    def get_config(self):
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "slots": self.slots,
            "slot_dim": self.slot_dim,
            "controller": keras.saving.serialize_keras_object(self.controller),
            "num_read_heads": self.num_read_heads,
            "num_write_heads": self.num_write_heads,
            "shift": keras.saving.serialize_keras_object(self.shift),
            "read_from": self.read_from,
            "head_activation": self.head_activation,
            "activation": activations.serialize(self.activation),
            "initial_memory": self.initial_memory,
            "initial_reads": self.initial_reads,
            "initial_weights": self.initial_weights,
            "initial_controller": self.initial_controller,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
