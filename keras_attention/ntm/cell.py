"""The Neural Turing Machine as a recurrent cell, Graves et al. 2014
(https://arxiv.org/abs/1410.5401).

    u_t      = [x_t; r_{t-1} of every read head]      controller -> h_t
    row_t    = W_head h_t + b_head                    head parameters, see `_heads`
    w_t      = address(row_t, M_{t-1}, w_{t-1})       see `addressing`
    M_t, r_t = write, then read                       see `memory_access`
    y_t      = sigmoid(W_out [h_t; r_t] + b_out)

All heads address the memory of the previous step. By default the write heads then write, and the
read heads read the written memory. `read_from="previous"` reads M_{t-1} instead, as two
well-known implementations do.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import activations, initializers, ops

from keras_attention import validation
from keras_attention._utils.base_cell import Cell, get_shapes
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.loop import select_examples
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    LayerOrConfig,
    Shape,
    Size,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.kernels.ntm_controllers import matmul_float32
from keras_attention.ntm import _controller as controllers
from keras_attention.ntm import shift_types
from keras_attention.ntm._heads import HeadLayout
from keras_attention.ntm._initial_state import NTMInitialState
from keras_attention.ntm._state import pack, state_sizes, unpack
from keras_attention.ntm.addressing import content_weights, interpolate, sharpen
from keras_attention.ntm.memory_access import read_memory, write_memory
from keras_attention.ntm.shift_types import Shift
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class NTMCell(Cell):
    """One step of a Neural Turing Machine: a controller with a memory it reads and writes.

    Use it if a network must store items and find them again, by content or in order:
    copying, sorting, lookup. `NTM(cell)` runs it over a sequence, fast and with the history
    of the heads. `keras.layers.RNN(cell)` and any other layer that takes a cell run it too.

    Args:
        output_dim: Positive int, the size of an output.
        memory_size: Positive int, the number of memory slots.
        word_size: Positive int, the size of a slot.
        controller: A Keras recurrent cell or layer from `(batch, input_dim + num_read_heads *
            word_size)` to `(batch, any)`; or "lstm" or "feed_forward", the paper's of 100 units.
        num_read_heads: Positive int.
        num_write_heads: Positive int.
        shift: "softmax", "scalar", `SoftmaxShift(max_shift)` or `ScalarShift(max_shift)`: how the
            heads move along the slots.
        read_from: "written", the memory after this step's writing, or "previous".
        head_activation: "tanh" or "linear", of keys and additions.
        activation: Activation of the output; None gives logits.
        initial_memory: A number for every element of the memory, or "learned".
        initial_reads: "learned" or "zeros".
        initial_weights: "learned", starting on slot 0, or "first": all heads on slot 0.
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
        `state_size`. If all weights of a batch element are 0, as in `get_initial_state` and after
        the layer's `reset_state`, the cell replaces its state by that of `start`. `start` and
        `step` use the same state as a dict: `controller`, the list of the controller's states;
        `memory` `(batch, memory_size, word_size)`; `reads` `(batch, num_read_heads, word_size)`;
        `read_weights` `(batch, num_read_heads, memory_size)`; `write_weights`
        `(batch, num_write_heads, memory_size)`. All are at least float32.

    Weights: the controller's; `head_kernel` `(controller units, head width)` and `head_bias`,
        where the head width is `(word_size + 3 + shift.size)` per head and `2 * word_size` more
        per write head; `output_kernel` `(controller units + num_read_heads * word_size,
        output_dim)` and `output_bias`; then the learned parts of the initial state.

    Raises:
        ValueError: If an argument lies outside its range, the shifts do not fit into the slots,
            the controller's input or output does not fit, a state has a different structure, or
            the controller has a dropout, which `keras.layers.RNN` does not support and `NTM` does.

    Masking: ignores masks; the layer that runs the cell copies the state in masked steps.

    Example:

    >>> cell = NTMCell(output_dim=3, memory_size=16, word_size=5)
    >>> cell.build((None, 4))
    >>> output, states = cell(keras.ops.ones((2, 4)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 3)
    >>> tuple(keras.layers.RNN(cell, return_sequences=True)(keras.ops.ones((2, 7, 4))).shape)
    (2, 7, 3)

    Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, sections 3 and 4.
    """

    initial_memory: float | str
    initial_reads: str
    initial_weights: str
    initial_controller: str

    def __init__(
        self,
        output_dim: int,
        memory_size: int = 128,
        word_size: int = 20,
        controller: str | LayerOrConfig = "lstm",
        num_read_heads: int = 1,
        num_write_heads: int = 1,
        shift: str | Shift | Config = "softmax",
        read_from: str = "written",
        head_activation: str = "tanh",
        activation: Activation = "sigmoid",
        initial_memory: float | str = 1e-6,
        initial_reads: str = "learned",
        initial_weights: str = "learned",
        initial_controller: str = "zeros",
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # half precision would round the initial constant of the memory
        owner = "NTMCell"
        self.output_dim: int = validation.check_positive_int(owner, "output_dim", output_dim)
        self.memory_size: int = validation.check_positive_int(owner, "memory_size", memory_size)
        self.word_size: int = validation.check_positive_int(owner, "word_size", word_size)
        self.num_read_heads: int = validation.check_positive_int(
            owner, "num_read_heads", num_read_heads
        )
        self.num_write_heads: int = validation.check_positive_int(
            owner, "num_write_heads", num_write_heads
        )
        self.shift: Shift = shift_types.get(shift)
        self.shift.check_memory_size(owner, self.memory_size)
        self.read_from: str = validation.check_one_of(
            owner, "read_from", read_from, ("written", "previous")
        )
        self.head_activation: str = validation.check_one_of(
            owner, "head_activation", head_activation, ("tanh", "linear")
        )
        self.activation: ActivationFunction = activations.get(activation)
        self.initial_memory, self.initial_reads = initial_memory, initial_reads
        self.initial_weights, self.initial_controller = initial_weights, initial_controller
        self.initial_state: NTMInitialState = NTMInitialState(
            owner, initial_memory, initial_reads, initial_weights, initial_controller
        )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)
        self.controller: keras.layers.Layer = controllers.get(owner, controller, self.dtype_policy)
        self.controller_adapter: controllers.ControllerAdapter = controllers.ControllerAdapter(
            owner, self.controller
        )
        self.heads: HeadLayout = HeadLayout(
            self.num_read_heads,
            self.num_write_heads,
            self.word_size,
            self.shift,
            self.head_activation == "tanh",
        )

    @property
    def output_size(self) -> int:
        """The size of an output, for `keras.layers.RNN`."""
        return self.output_dim

    @property
    def state_size(self) -> list[int]:
        """The sizes of the states in a flat list: controller, memory, reads, weights."""
        return state_sizes(self)

    def build(self, input_shape: Shape) -> None:
        self.check_inputs(input_shape)
        self.input_dim: int | None = input_shape[-1]
        units = self.controller_adapter.build((input_shape[0], self.controller_input_dim))
        self.head_kernel: keras.Variable = self.add_weight(
            (units, self.heads.width), self.kernel_initializer, name="head_kernel"
        )
        self.head_bias: keras.Variable = self.add_weight(
            (self.heads.width,), self.bias_initializer, name="head_bias"
        )
        wide = units + self.num_read_heads * self.word_size
        self.output_kernel: keras.Variable = self.add_weight(
            (wide, self.output_dim),
            derive_initializer(self.kernel_initializer, 1),
            name="output_kernel",
        )
        self.output_bias: keras.Variable = self.add_weight(
            (self.output_dim,), derive_initializer(self.bias_initializer, 1), name="output_bias"
        )
        self.initial_state.build(self, self.controller_adapter.state_sizes)
        self.built = True

    @property
    def controller_input_dim(self) -> int:
        """The width of the controller's input, `[x_t; r_{t-1}]`."""
        return self.input_dim + self.num_read_heads * self.word_size

    def start(self, batch_size: Size) -> TensorDict:
        """Returns the dict of the state before the first step."""
        check_ready(self, None)
        dtype = wide_dtype(self.compute_dtype)
        controller = self.controller_adapter.start(batch_size, dtype)
        return self.initial_state.make(self, batch_size, controller, dtype)

    def step(
        self, inputs: TensorLike, state: TensorDict, training: bool | None = None
    ) -> tuple[Tensor, TensorDict]:
        """Returns the output of one step and the dict of the new state.

        Args:
            inputs: Float tensor `(batch, input_dim)`.
            state: Dict, as `start` returns it.
            training: Whether the controller's dropout is applied.
        """
        hidden, state = self.step_state(inputs, state, training)
        return self.compute_output(hidden, state["reads"]), state

    def step_state(
        self, inputs: TensorLike, state: TensorDict, training: bool | None = None
    ) -> tuple[Tensor, TensorDict]:
        """Returns the controller's output and the dict of the new state."""
        check_ready(self, inputs)
        wide, heads = wide_dtype(self.compute_dtype), self.heads
        state = keras.tree.map_structure(lambda part: ops.cast(part, wide), state)
        reads = ops.reshape(state["reads"], (-1, heads.num_read * self.word_size))
        feedback = ops.concatenate([ops.cast(inputs, wide), reads], axis=-1)
        hidden, controller = self.controller_adapter.step(
            ops.cast(feedback, self.compute_dtype), state["controller"], training
        )
        row = matmul_float32(hidden, ops.cast(self.head_kernel, self.compute_dtype))
        raw = heads.split(row + ops.cast(self.head_bias, row.dtype))
        head_parameters = heads.parameters(raw)
        memory = state["memory"]
        previous = ops.concatenate([state["read_weights"], state["write_weights"]], axis=1)
        content = content_weights(
            head_parameters["key"], head_parameters["strength"][:, :, 0], memory
        )
        gated = interpolate(content, previous, head_parameters["gate"][:, :, 0])
        weights = sharpen(
            self.shift.apply(gated, head_parameters["shift"]),
            head_parameters["sharpening"][:, :, 0],
        )
        reading, writing = weights[:, : heads.num_read], weights[:, heads.num_read :]
        written = write_memory(
            memory, writing, head_parameters["erase"], head_parameters["addition"]
        )
        return hidden, {
            "controller": controller,
            "memory": written,
            "reads": read_memory(written if self.read_from == "written" else memory, reading),
            "read_weights": reading,
            "write_weights": writing,
        }

    def compute_output(self, hidden: TensorLike, reads: TensorLike) -> Tensor:
        """Returns outputs `(..., output_dim)` from the controller's output and the reads.

        Args:
            hidden: Float tensor `(..., units)`.
            reads: Float tensor `(..., num_read_heads, word_size)`.
        """
        wide = wide_dtype(self.compute_dtype)
        width = self.num_read_heads * self.word_size
        hidden = ops.cast(hidden, wide)
        flat = ops.concatenate(
            [
                ops.reshape(hidden, (-1, hidden.shape[-1])),
                ops.reshape(ops.cast(reads, wide), (-1, width)),
            ],
            axis=-1,
        )
        outputs = matmul_float32(flat, ops.cast(self.output_kernel, self.compute_dtype))
        outputs = self.activation(outputs + ops.cast(self.output_bias, outputs.dtype))
        outputs = ops.reshape(outputs, (*get_shape(hidden)[:-1], self.output_dim))
        return ops.cast(outputs, self.compute_dtype)

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool | None = None
    ) -> tuple[TensorLike, list[TensorLike]]:
        state = unpack(self, states)
        self.check_step(inputs.shape, get_shapes(states))
        state = self._replace_unstarted(state)
        output, state = self.step(inputs, state, training)
        # `keras.layers.RNN` carries the states in the compute dtype, in a loop.
        dtypes = [state.dtype for state in keras.tree.flatten(states)]
        return output, [
            ops.cast(new, dtype) for new, dtype in zip(pack(self, state), dtypes, strict=True)
        ]

    def _replace_unstarted(self, state):
        """Returns the state, replaced by that of `start` for elements that have not started.

        A stateful `keras.layers.RNN` requests the initial state once, when it is built, and resets
        to zeros. So the step itself has to insert the learned initial state.
        """
        weights = state["read_weights"]
        started = ops.any(weights != 0, axis=(1, 2))
        begin = self.start(get_shape(weights)[0])
        return keras.tree.map_structure(
            lambda now, first: select_examples(started, ops.cast(now, first.dtype), first),
            state,
            begin,
        )

    def get_initial_state(self, batch_size: Size | None = None) -> list[Tensor]:
        """Returns zeros, the flat list of a state that has not started."""
        dtype = wide_dtype(self.compute_dtype)
        return [ops.zeros((batch_size, size), dtype=dtype) for size in self.state_size]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "memory_size": self.memory_size,
            "word_size": self.word_size,
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
