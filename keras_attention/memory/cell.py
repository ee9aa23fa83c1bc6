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
from keras_attention.memory import shifts
from keras_attention.memory.access import read, write
from keras_attention.memory.addressing import content_weights, interpolate, sharpen
from keras_attention.memory.controllers import product
from keras_attention.memory.heads import Heads
from keras_attention.memory.initial_state import InitialState
from keras_attention.precision import wide_dtype
from keras_attention.scorers.base import check_ready

CONTROLLERS = ("lstm", "feed_forward")


@keras.saving.register_keras_serializable(package="keras_attention")
class NTMCell(keras.layers.Layer):
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
        initial_weights: "learned", or "first": all heads on slot 0.
        initial_controller: "zeros" or "learned".
        kernel_initializer: Initializer of both kernels.
        bias_initializer: Initializer of both biases.

    Call arguments:
        inputs: Float tensor `(batch, input_dim)`.
        states: List of tensors, as `get_initial_state` returns it.

    Returns:
        The output `(batch, output_dim)` and the list of new states.

    State: inside `keras.layers.RNN` a flat list of `(batch, size)` tensors, in the order of
        `state_size`. `start` and `step` speak of the same as a dict: `controller`, the list of
        the controller's states; `memory` `(batch, slots, slot_dim)`; `reads` `(batch,
        num_read_heads, slot_dim)`; `read_weights` `(batch, num_read_heads, slots)`;
        `write_weights` `(batch, num_write_heads, slots)`. All but the controller's are at least
        float32.

    Weights: the controller's; `head_kernel` `(controller units, head width)` and `head_bias`,
        where the head width is `(slot_dim + 3 + shift.size)` a head and `2 * slot_dim` more a
        write head; `output_kernel` `(controller units + num_read_heads * slot_dim, output_dim)`
        and `output_bias`; then what is learned of the initial state.

    Raises:
        ValueError: If an argument lies outside its range, the shifts do not fit into the slots,
            the controller's input or output does not fit, or a state has another structure.

    Example:

    >>> cell = NTMCell(output_dim=3, slots=16, slot_dim=5)
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
        self.controller = _controller(owner, controller, self.dtype_policy)
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
        heads = self.heads
        return [
            *keras.tree.flatten(getattr(self.controller, "state_size", [])),
            self.slots * self.slot_dim,
            heads.num_read * self.slot_dim,
            heads.num_read * self.slots,
            heads.num_write * self.slots,
        ]

    def build(self, input_shape):
        if len(input_shape) != 2 or input_shape[-1] is None:
            raise ValueError(
                "NTMCell expects `inputs` of shape (batch, input_dim) with a known input_dim. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )
        self.input_dim = input_shape[-1]
        fed = self.input_dim + self.num_read_heads * self.slot_dim
        units = self._build_controller((input_shape[0], fed))
        self.head_kernel = self.add_weight(
            (units, self.heads.width), self.kernel_initializer, name="head_kernel"
        )
        self.head_bias = self.add_weight(
            (self.heads.width,), self.bias_initializer, name="head_bias"
        )
        wide = units + self.num_read_heads * self.slot_dim
        self.output_kernel = self.add_weight(
            (wide, self.output_dim), self.kernel_initializer, name="output_kernel"
        )
        self.output_bias = self.add_weight(
            (self.output_dim,), self.bias_initializer, name="output_bias"
        )
        sizes = keras.tree.flatten(getattr(self.controller, "state_size", []))
        self.initial_state.build(self, sizes)
        self.built = True

    def _build_controller(self, shape):
        """Builds the controller for inputs of `shape`; returns the size of its output."""
        controller, width = self.controller, shape[-1]
        if not controller.built:
            controller.build(shape)
        kernel = getattr(controller, "kernel", None)
        if kernel is not None and kernel.shape[0] != width:
            raise ValueError(
                "NTMCell expects a `controller` that takes inputs of the width input_dim + "
                f"num_read_heads * slot_dim, here {self.input_dim} + {width - self.input_dim}. "
                f"Received: controller={controller.name!r}, built for the width {kernel.shape[0]}"
            )
        if hasattr(controller, "state_size"):
            first = keras.tree.flatten(controller.state_size)[0]
            output_shape = (None, getattr(controller, "output_size", first))
        else:
            output = controller.compute_output_spec(keras.KerasTensor(shape, self.compute_dtype))
            output_shape = tuple(getattr(output, "shape", (None,)))
        if len(output_shape) != 2 or not isinstance(output_shape[-1], int):
            raise ValueError(
                "NTMCell expects a `controller` whose output has the shape (batch, units). "
                f"Received: controller={controller.name!r} with the output shape {output_shape}"
            )
        return output_shape[-1]

    def _control(self, inputs, states):
        """Returns the controller's output and its new states, a flat list."""
        if not hasattr(self.controller, "state_size"):
            return self.controller(inputs), []
        packed = keras.tree.pack_sequence_as(_listed(self.controller.state_size), list(states))
        output, new = self.controller(inputs, packed)
        return output, keras.tree.flatten(new)

    def start(self, batch_size):
        """Returns the dict of the state before the first step."""
        check_ready(self, None)
        controller = []
        if hasattr(self.controller, "state_size"):
            controller = keras.tree.flatten(self.controller.get_initial_state(batch_size))
        dtype = wide_dtype(self.compute_dtype)
        return self.initial_state.make(self, batch_size, controller, dtype)

    def step(self, inputs, state):
        """Returns the output of one step and the dict of the new state."""
        hidden, state = self.advance(inputs, state)
        return self.read_out(hidden, state["reads"]), state

    def advance(self, inputs, state):
        """Returns the controller's output and the dict of the new state."""
        check_ready(self, inputs)
        wide, heads = wide_dtype(self.compute_dtype), self.heads
        reads = ops.reshape(state["reads"], (-1, heads.num_read * self.slot_dim))
        fed = ops.concatenate([ops.cast(inputs, wide), ops.cast(reads, wide)], axis=-1)
        hidden, controller = self._control(ops.cast(fed, self.compute_dtype), state["controller"])
        row = product(hidden, ops.cast(self.head_kernel, self.compute_dtype))
        raw = heads.split(row + ops.cast(self.head_bias, row.dtype))
        told = heads.parameters(raw)
        memory = ops.cast(state["memory"], wide)
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
        output, state = self.step(inputs, self.unpack(states))
        return output, self.pack(state)

    def get_initial_state(self, batch_size=None):
        return self.pack(self.start(batch_size))

    def pack(self, state):
        """Returns the dict of a state as the flat list that `keras.layers.RNN` carries."""
        parts = [state[name] for name in ("memory", "reads", "read_weights", "write_weights")]
        sizes = self.state_size[-4:]
        flat = [ops.reshape(part, (-1, size)) for part, size in zip(parts, sizes, strict=True)]
        return [*state["controller"], *flat]

    def unpack(self, states):
        """Returns the dict of a state from the flat list.

        Raises:
            ValueError: If the list has another length.
        """
        states, sizes = list(states), self.state_size
        found = [tuple(part.shape) for part in keras.tree.flatten(states)]
        if len(found) != len(sizes) or any(
            len(shape) != 2 or shape[-1] not in (None, size)
            for shape, size in zip(found, sizes, strict=False)
        ):
            raise ValueError(
                f"NTMCell expects `states` of the sizes {sizes}: the controller's, memory, reads, "
                f"read weights, write weights, each (batch, size). Received: shapes {found}"
            )
        *controller, memory, reads, read_weights, write_weights = states
        return {
            "controller": controller,
            "memory": ops.reshape(memory, (-1, self.slots, self.slot_dim)),
            "reads": ops.reshape(reads, (-1, self.num_read_heads, self.slot_dim)),
            "read_weights": ops.reshape(read_weights, (-1, self.num_read_heads, self.slots)),
            "write_weights": ops.reshape(write_weights, (-1, self.num_write_heads, self.slots)),
        }

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


def _listed(sizes):
    """Returns the sizes of a controller's states as it wants its states: one stands in a list."""
    return [sizes] if isinstance(sizes, int) else list(sizes)


def _controller(owner, controller, dtype_policy):
    if isinstance(controller, dict):
        controller = keras.saving.deserialize_keras_object(controller)
    if controller == "lstm":
        return keras.layers.LSTMCell(100, dtype=dtype_policy, name="controller")
    if controller == "feed_forward":
        return keras.layers.Dense(100, activation="tanh", dtype=dtype_policy, name="controller")
    if not isinstance(controller, keras.layers.Layer):
        raise ValueError(
            f"{owner} expects `controller` to be a Keras cell or layer, or one of "
            f"{', '.join(map(repr, CONTROLLERS))}. Received: controller={controller!r}"
        )
    return controller
