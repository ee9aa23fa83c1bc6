"""The long short-term memory-network (LSTMN) as a layer, Cheng et al. 2016
(https://arxiv.org/abs/1601.06733). `_lstmn_step` has its equations and names, and
`keras_attention.kernels.lstmn_sequence` the loop.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.initializers import (
    column_block_initializer,
    derive_initializer,
    float32_initializer,
)
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Size,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.kernels.lstmn_sequence import lstmn_sequence
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.recurrent._lstmn_shapes import (
    check_memory,
    check_shapes,
    compute_output_specs,
)
from keras_attention.recurrent._lstmn_step import make_initial_state, step
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class LSTMN(Layer):
    """Runs an LSTM that attends to all of its earlier states at every step.

    Use it if a step must find one of many earlier steps, or to see which steps it attends to: the
    weights relate a sequence to itself. Stack layers by passing the outputs of one to the next. An
    ordinary attention from its outputs to an encoder's is the paper's shallow fusion; in deep
    fusion the encoder's cells enter the cell's update. It costs `time * time * units` operations.
    With the softmax it stores only the weights; other normalizers use the automatic gradient,
    which stores the memory cells and hidden states of every step.

    Args:
        units: Positive int, the size of hidden state and cell.
        attention_units: Positive int, the size inside the scores; None is `units`.
        fusion: "deep" to attend to an encoder as well, or None.
        normalizer: A `Normalizer` that uses neither noise nor earlier weights, or its name.
        kernel_initializer: Initializer of every kernel but the recurrent ones.
        recurrent_initializer: Initializer of each of the four recurrent matrices.
        bias_initializer: Initializer of the biases, which the paper does not mention.

    Call arguments:
        inputs: Float tensor `(batch, time, input_dim)`.
        memory: With deep fusion, float tensor `(batch, source, memory_dim)`: the encoder's
            hidden states.
        memory_cells: With deep fusion, float tensor `(batch, source, units)`: its cells.
        mask: Boolean `(batch, time)`. A masked step copies the state, leaves its slot empty,
            and returns 0.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        return_cells: Whether to return the cells as well, for deep fusion in a decoder.
        return_attention_scores: Whether to return the weights as well.
        return_state: Whether to return the final state as well.

    Returns:
        The hidden states `(batch, time, units)`, followed by the requested outputs in this
        order: cells `(batch, time, units)`; weights `(batch, time, time + 1)` over the slots,
        where slot 0 is the zero state before the first step and slot i + 1 that of step i, and
        with deep fusion weights `(batch, time, source)`; state.

    State: a dict of `key` `(rows, slots, attention_units)`, `value` `(rows, slots, 2 * units)`
        (hidden state and cell side by side) and boolean `mask` `(rows, slots)`; `attended`
        `(rows, units)`; `position`, int32 `(rows,)`, the number of completed steps; with deep
        fusion `memory_attended` `(rows, memory_dim)`.

    Raises:
        ValueError: If an argument lies outside its range, the memory does not match
            `fusion`, or shapes do not fit.

    Masking: uses the masks of the inputs and of the memory; propagates that of the inputs.

    Example:

    >>> layer = LSTMN(units=6)
    >>> inputs = keras.ops.ones((2, 5, 3))
    >>> outputs, weights = layer(inputs, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 5, 6), (2, 5, 6))
    >>> encoder, decoder = LSTMN(units=6), LSTMN(units=6, fusion="deep")
    >>> hidden, cells = encoder(keras.ops.ones((2, 7, 4)), return_cells=True)
    >>> tuple(decoder(inputs, hidden, cells).shape)
    (2, 5, 6)

    Reference: Cheng et al. 2016, https://arxiv.org/abs/1601.06733, sections 3.2 and 4.
    """

    def __init__(
        self,
        units: int,
        attention_units: int | None = None,
        fusion: str | None = None,
        normalizer: str | Normalizer | Config = "softmax",
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "LSTMN"
        self.supports_masking = True
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.attention_units = attention_units
        if attention_units is not None:
            validation.check_positive_int(owner, "attention_units", attention_units)
        self.fusion: str | None = validation.check_one_of(owner, "fusion", fusion, (None, "deep"))
        self.normalizer: Normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        if self.normalizer.random or self.normalizer.reads_weights:
            raise ValueError(
                f"{owner} expects a `normalizer` that uses neither noise nor earlier "
                "weights, for example 'softmax' or 'sparsemax'. "
                f"Received: normalizer={normalizer!r}"
            )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.recurrent_initializer: InitializerFunction = initializers.get(recurrent_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)

    def build(
        self,
        inputs_shape: Shape,
        memory_shape: Shape | None = None,
        memory_cells_shape: Shape | None = None,
    ) -> None:
        check_shapes(self, inputs_shape, memory_shape, memory_cells_shape)
        units, query_units = self.units, self.attention_units or self.units
        self.input_dim: int | None = inputs_shape[-1]
        self.memory_dim: int | None = memory_shape[-1] if self.fusion else None
        initializer = float32_initializer(column_block_initializer(self.recurrent_initializer, 4))
        self.kernel: keras.Variable = self._add_kernel(0, "kernel", self.input_dim, 4 * units)
        self.recurrent_kernel: keras.Variable = self.add_weight(
            (units, 4 * units), initializer, name="recurrent_kernel"
        )
        self.bias: keras.Variable = self.add_weight(
            (4 * units,), self.bias_initializer, name="bias"
        )
        self.input_query_kernel: keras.Variable = self._add_kernel(
            1, "input_query_kernel", self.input_dim, query_units
        )
        self.query_kernel: keras.Variable = self._add_kernel(2, "query_kernel", units, query_units)
        self.key_kernel: keras.Variable = self._add_kernel(3, "key_kernel", units, query_units)
        self.vector: keras.Variable = self._add_kernel(4, "vector", query_units, 1)
        if self.fusion:
            self._build_fusion(units, query_units)
        if not self.normalizer.built:
            self.normalizer.build((None, 1, None))
        self.built = True

    def _build_fusion(self, units, query_units):
        memory_dim, input_dim = self.memory_dim, self.input_dim
        self.memory_key_kernel: keras.Variable = self._add_kernel(
            5, "memory_key_kernel", memory_dim, query_units
        )
        self.memory_input_kernel: keras.Variable = self._add_kernel(
            6, "memory_input_kernel", input_dim, query_units
        )
        self.memory_query_kernel: keras.Variable = self._add_kernel(
            7, "memory_query_kernel", memory_dim, query_units
        )
        self.memory_vector: keras.Variable = self._add_kernel(8, "memory_vector", query_units, 1)
        self.memory_gate_kernel: keras.Variable = self._add_kernel(
            9, "memory_gate_kernel", memory_dim + input_dim, units
        )
        self.memory_gate_bias: keras.Variable = self.add_weight(
            (units,), self.bias_initializer, name="memory_gate_bias"
        )

    def _add_kernel(self, index, name, *shape):
        return self.add_weight(shape, derive_initializer(self.kernel_initializer, index), name=name)

    def prepare(
        self, memory: TensorLike, memory_cells: TensorLike, memory_mask: TensorLike | None = None
    ) -> TensorDict:
        """Returns the memory of deep fusion: a dict of `key`, `value` and boolean `mask`."""
        check_ready(self, memory)
        check_memory(self, memory.shape, memory_cells.shape)
        memory_mask = validation.fit_mask(
            "LSTMN", "memory_mask", memory_mask, memory, "(batch, source)"
        )
        memory, cells = (ops.cast(tensor, self.compute_dtype) for tensor in (memory, memory_cells))
        value = ops.concatenate([memory, cells], axis=-1)
        if memory_mask is None:
            memory_mask = ops.ones(get_shape(value)[:2], dtype="bool")
        else:
            # Padding may contain anything, even NaN, which a weight of 0 would not remove.
            value = ops.where(memory_mask[:, :, None], value, 0)
        hidden = value[:, :, : self.memory_dim]
        key = ops.einsum("bsd,du->bsu", hidden, self._cast(self.memory_key_kernel))
        return {"key": key, "value": value, "mask": memory_mask}

    def get_initial_state(self, batch_size: Size, max_length: int) -> TensorDict:
        """Returns the state before the first step, with slots for `max_length` steps.

        A step beyond `max_length` is computed, but not stored in a slot.
        """
        check_ready(self, None)
        return make_initial_state(batch_size, max_length + 1, self._weights(), self.compute_dtype)

    def extend(self, state: TensorDict, max_length: int) -> TensorDict:
        """Returns a state from a call, extended to slots for `max_length` steps in total."""
        empty = self.get_initial_state(get_shape(state["mask"])[0], max_length)
        past_states = {
            name: ops.concatenate([state[name], empty[name][:, get_shape(state[name])[1] :]], 1)
            for name in ("key", "value", "mask")
        }
        return {**state, **past_states}

    def step(
        self, inputs: TensorLike, state: TensorDict, memory: TensorDict | None = None
    ) -> tuple[Structure, ...]:
        """Runs one step.

        Args:
            inputs: Float tensor `(rows, input_dim)`; rows is the batch size of the memory, or
                that times beam (flat beams, batch major).
            state: The state, every leaf with leading dimension rows.
            memory: With deep fusion the result of `prepare`, with leading dimension batch.

        Returns:
            Output `(rows, units)`, weights `(rows, slots)`, with deep fusion also weights
            `(rows, source)`, and the state.
        """
        check_ready(self, inputs)
        normalize = self._normalize
        step_outputs, state = step(
            self._project(inputs), state, self._weights(), memory, None, normalize
        )
        return step_outputs["hidden"], *_list_weights(step_outputs), state

    def call(
        self,
        inputs: Tensor,
        memory: Tensor | None = None,
        memory_cells: Tensor | None = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_cells: bool = False,
        return_attention_scores: bool = False,
        return_state: bool = False,
    ) -> Outputs:
        mask = self._check_call(inputs, memory, memory_cells, mask, inputs_mask)
        prepared = self.prepare(memory, memory_cells, memory_mask) if self.fusion else None
        if mask is None:
            mask = ops.ones(get_shape(inputs)[:2], dtype="bool")
        # Padding may contain anything, even NaN, which would reach the gradients of weights.
        projected = self._project(ops.where(mask[:, :, None], inputs, 0))
        weights = self._weights()
        softmax = type(self.normalizer) is SoftmaxNormalizer
        step_outputs = lstmn_sequence(
            projected, mask, weights, prepared, None if softmax else self._normalize
        )
        state = _last_state(step_outputs, mask, weights["key"]) if return_state else None
        return select_outputs(
            step_outputs["hidden"],
            (return_cells, step_outputs["cell"]),
            *((return_attention_scores, weights) for weights in _list_weights(step_outputs)),
            (return_state, state),
        )

    def _check_call(self, inputs, memory, memory_cells, mask, inputs_mask):
        """Returns the mask of the inputs, or None, after checking it and the shapes."""
        shapes = [None if tensor is None else tensor.shape for tensor in (memory, memory_cells)]
        check_shapes(self, inputs.shape, *shapes)
        return validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)

    def _normalize(self, scores, mask):
        return self.normalizer(scores, mask=mask)

    def _cast(self, weight):
        return ops.cast(weight, self.compute_dtype)

    def _weights(self):
        """Returns the weights with the names in `_lstmn_step`, in the compute dtype."""
        weights = {
            "query": self._cast(self.query_kernel),
            "key": self._cast(self.key_kernel),
            "vector": self._cast(self.vector)[:, 0],
            "recurrent": self._cast(self.recurrent_kernel),
        }
        if self.fusion:
            weights["memory_query"] = self._cast(self.memory_query_kernel)
            weights["memory_vector"] = self._cast(self.memory_vector)[:, 0]
            weights["memory_gate"] = self._cast(self.memory_gate_kernel)[: self.memory_dim]
        return weights

    def _project(self, inputs):
        """Returns all products with the input side by side, see `_lstmn_step`."""
        kernels = [self._cast(self.input_query_kernel), self._cast(self.kernel)]
        biases = [ops.zeros_like(kernels[0][0]), self._cast(self.bias)]
        if self.fusion:
            kernels += [
                self._cast(self.memory_input_kernel),
                self._cast(self.memory_gate_kernel)[self.memory_dim :],
            ]
            biases += [biases[0], self._cast(self.memory_gate_bias)]
        flat = ops.reshape(self._cast(inputs), (-1, self.input_dim))
        projected = ops.matmul(flat, ops.concatenate(kernels, axis=-1))
        projected = projected + ops.concatenate(biases, axis=-1)
        return ops.reshape(projected, (*get_shape(inputs)[:-1], projected.shape[-1]))

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self,
        inputs_shape: Shape,
        memory_shape: Shape | None = None,
        memory_cells_shape: Shape | None = None,
    ) -> OutputShape:
        check_shapes(self, inputs_shape, memory_shape, memory_cells_shape)
        return (*tuple(inputs_shape)[:2], self.units)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_call(call.inputs, call.memory, call.memory_cells, call.mask, call.inputs_mask)
        return compute_output_specs(self, call)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "attention_units": self.attention_units,
            "fusion": self.fusion,
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }


def _list_weights(step_outputs):
    """Returns the weights over the slots and, with deep fusion, those over the memory."""
    return [step_outputs[name] for name in ("weights", "memory_weights") if name in step_outputs]


def _last_state(step_outputs, mask, key_kernel):
    """Returns the state after the last step of `lstmn_sequence`."""
    value = ops.concatenate([step_outputs["hidden"], step_outputs["cell"]], axis=-1)
    value = ops.pad(value, ((0, 0), (1, 0), (0, 0)))
    hidden = value[:, :, : key_kernel.shape[0]]
    written = ops.concatenate([ops.ones_like(mask[:, :1]), mask], axis=1)
    batch, time = get_shape(mask)
    state = {
        "key": ops.einsum("bsd,du->bsu", hidden, key_kernel),
        "value": value,
        "mask": written,
        "attended": step_outputs["attended"][:, -1],
        "position": ops.zeros((batch,), dtype="int32") + time,
    }
    if "memory_attended" in step_outputs:
        state["memory_attended"] = step_outputs["memory_attended"][:, -1]
    return state
