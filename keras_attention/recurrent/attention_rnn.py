"""Attention around a recurrent cell, in the two orders of the literature.

    "bahdanau"   a_t from s_{t-1};  s_t = cell([x_t; c_t], s_{t-1})
    "luong"      h_t = cell(x_t, h_{t-1});  a_t from h_t;  h~_t = tanh(W_c [c_t; h_t])

Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473), section 3.1; Luong et al. 2015
(https://arxiv.org/abs/1508.04025), section 3, equation 5, and 3.3, input feeding: the input of the
cell is [x_t; h~_{t-1}].
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.flat_beams import flatten_beams, unflatten_beams
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Cell,
    Config,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention.base import AttentionMechanism
from keras_attention.kernels.matmul_precision import Dense
from keras_attention.recurrent import _attention_loop
from keras_attention.recurrent._cell_adapter import CellAdapter
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionRNN(Layer):
    """Runs a cell over a sequence while it attends to a memory.

    The memory is an argument of the call and is prepared once for all steps. If no recurrence
    depends on the attention (order "luong" without input feeding), all steps attend at once,
    after the loop.

    Args:
        cell: Any Keras cell, or a list of cells to stack. The first tensor of its (top)
            state is its output, as in all Keras cells.
        attention: An attention mechanism, for example `BahdanauAttention(64)`. Of
            `MultiHeadAttention`, the weights are the mean over its heads.
        order: "bahdanau" attends with the previous state and feeds the context to the
            cell; "luong" attends with the cell's new output.
        input_feeding: With order "luong", whether the previous attentional vector (or the
            context if there is none) is concatenated to the cell's input.
        attentional_units: With order "luong", the size of the attentional vector h~. None is
            the size of the cell's output, as in the paper; 0 returns the cell's outputs
            instead, for readouts that use `return_context`.
        attentional_activation: Activation of the attentional vector; None for a linear one.
        attention_history: The earlier weights that are passed to the attention at each step:
            "previous" for those of the previous step, or "accumulated" for the sum over all
            earlier steps. By default, `MonotonicNormalizer`, `ForwardNormalizer`,
            `LocationSensitiveScorer` and `DynamicConvolutionScorer` get the previous weights,
            `CoverageScorer` the accumulated ones.

    Call arguments:
        inputs: Float tensor `(batch, time, input_dim)`.
        memory: Float tensor `(batch, source, memory_dim)`, the vectors to attend to.
        initial_state: Optional state of the cell: a tensor `(batch, units)`, or the list
            (of lists, for a stack) that the cell uses. Zeros by default.
        inputs_mask: Boolean `(batch, time)`. A masked step copies the state; its outputs
            and weights are 0.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        training: Whether cell and attention apply their dropout and sample their noise.
        return_context: Whether to return the contexts as well.
        return_attention_scores: Whether to return the weights as well.
        return_auxiliary_outputs: Whether to return the auxiliary outputs of the attention as
            well: a dict of float32 tensors `(batch, time)`, empty for most mechanisms.
        return_state: Whether to return the final state as well.

    Returns:
        The outputs `(batch, time, units)`, followed by the requested outputs in this order:
        contexts `(batch, time, context_dim)`, weights `(batch, time, source)`, auxiliary outputs,
        state. `context_dim` is `memory_dim` for all attention but `MultiHeadAttention`.

    State: a dict with `cell` (the cell's list), `position`, int32 `(rows,)`, the number of
        completed steps; with input feeding `feedback`, `(rows, feedback_dim)`; with an attention
        history `weights`, `(rows, source)`, in at least float32; and if the attention has a state
        of its own `attention`, a dict of `(rows, size)`, see `AttentionMechanism.state_sizes`.

    Raises:
        ValueError: If an argument is unknown, two do not fit together, or shapes do not fit.

    Example:

    >>> from keras_attention import BahdanauAttention
    >>> layer = AttentionRNN(keras.layers.GRUCell(6), BahdanauAttention(8), order="bahdanau")
    >>> inputs, memory = keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 7, 5))
    >>> outputs, weights = layer(inputs, memory, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 3, 6), (2, 3, 7))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015,
    https://arxiv.org/abs/1508.04025.
    """

    def __init__(
        self,
        cell: Cell,
        attention: AttentionMechanism | Config,
        order: str = "luong",
        input_feeding: bool = False,
        attentional_units: int | None = None,
        attentional_activation: Activation = "tanh",
        attention_history: str | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if isinstance(attention, dict):
            attention = keras.saving.deserialize_keras_object(attention)
        if not isinstance(attention, AttentionMechanism):
            raise ValueError(
                "AttentionRNN expects `attention` to be an attention layer of this package, for "
                "example `BahdanauAttention(units)` or `Attention(scorer)`. "
                f"Received: attention={attention!r}"
            )
        self.adapter: CellAdapter = CellAdapter("AttentionRNN", cell)
        self.cell: keras.layers.Layer = self.adapter.cell
        self.attention: AttentionMechanism = attention
        self.order: str = validation.check_one_of(
            "AttentionRNN", "order", order, ("bahdanau", "luong")
        )
        if order == "bahdanau" and (input_feeding or attentional_units is not None):
            raise ValueError(
                "AttentionRNN with order='bahdanau' feeds the context to the cell and has no "
                "attentional vector; `input_feeding` and `attentional_units` require "
                f"order='luong'. Received: input_feeding={input_feeding!r}, "
                f"attentional_units={attentional_units!r}"
            )
        choices = (None, "previous", "accumulated")
        self.attention_history: str | None = validation.check_one_of(
            "AttentionRNN", "attention_history", attention_history, choices
        )
        self._history_mode = attention_history or attention.reads_weights
        if self._history_mode == "accumulated" and attention.normalizer.reads_weights:
            raise ValueError(
                "AttentionRNN cannot accumulate weights for a normalizer that needs those of the "
                f"last step. Received: attention_history={attention_history!r}, "
                f"normalizer={type(attention.normalizer).__name__}"
            )
        if self._history_mode and attention.num_heads is not None:
            raise ValueError(
                "AttentionRNN carries one set of earlier weights, not those of several heads. Use "
                "`MultiHeadAttention` with a scorer and a normalizer that read no earlier weights. "
                f"Received: attention={attention!r}, attention_history={attention_history!r}"
            )
        self.input_feeding: bool = bool(input_feeding)
        self.attentional_units = attentional_units
        self.attentional_activation: ActivationFunction = keras.activations.get(
            attentional_activation
        )
        self.attentional: Dense | None = None
        self.attentional_dim: int = 0
        if order == "luong":
            if attentional_units is None:
                attentional_units = self.adapter.output_dim
            hint = "0 returns the cell's outputs."
            self.attentional_dim = validation.check_int_at_least(
                "AttentionRNN", "attentional_units", attentional_units, 0, hint
            )
        if self.attentional_dim:
            self.attentional = Dense(
                self.attentional_dim,
                activation=self.attentional_activation,
                use_bias=False,
                dtype=self.dtype_policy,
                name="attentional",
            )

    def build(
        self,
        inputs_shape: Shape,
        memory_shape: Shape,
        initial_state_shape: Shape | Sequence[Shape] | None = None,
    ) -> None:
        self._check_shapes(inputs_shape, memory_shape)
        batch, memory_dim = inputs_shape[0], memory_shape[-1]
        output_dim = self.adapter.output_dim
        self.context_dim: int = self._get_context_dim(memory_shape)
        if self.order == "bahdanau":
            self.feedback_dim = self.context_dim
        else:
            feedback_dim = self.attentional_dim or self.context_dim
            self.feedback_dim = feedback_dim if self.input_feeding else 0
        self.input_dim: int | None = inputs_shape[-1]
        self.memory_dim = memory_dim
        self.adapter.build((batch, self.input_dim + self.feedback_dim))
        if not self.attention.built:
            self.attention.build((batch, None, output_dim), memory_shape)
        if self.attentional is not None:
            self.attentional.build((batch, None, self.context_dim + output_dim))
        self.built = True

    def _get_context_dim(self, memory_shape):
        query_shape = (memory_shape[0], None, self.adapter.output_dim)
        return self.attention.compute_output_shape(query_shape, memory_shape)[-1]

    def prepare(self, memory: TensorLike, memory_mask: TensorLike | None = None) -> TensorDict:
        """Returns the part that depends on the memory alone: the dict of `attention.prepare`."""
        check_ready(self, memory)
        if memory.shape[-1] != self.memory_dim:
            raise ValueError(
                f"AttentionRNN was built for `memory` of width {self.memory_dim}. "
                f"Received: memory.shape={tuple(memory.shape)}"
            )
        return self.attention.prepare(memory, value_mask=memory_mask)

    def start(self, memory: TensorDict, initial_state: Structure = None) -> TensorDict:
        """Returns the state before the first step, for the result of `prepare`."""
        check_ready(self, memory["mask"])
        rows, source = get_shape(memory["mask"])
        state = {
            "cell": self.adapter.start(rows, initial_state),
            "position": ops.zeros((rows,), dtype="int32"),
        }
        if self._has_feedback:
            state["feedback"] = ops.zeros((rows, self.feedback_dim), dtype=self.compute_dtype)
        if self._history_mode:
            weights = ops.zeros((rows, source), dtype=wide_dtype(self.compute_dtype))
            if self._history_mode == "previous":
                weights = self.attention.initial_weights(rows, source)
            # Sums over many steps need more precision than float16.
            state["weights"] = ops.cast(weights, wide_dtype(self.compute_dtype))
        if self._has_attention_state:
            state["attention"] = self.attention.initial_state(rows, source)
        return state

    def step(
        self, inputs: TensorLike, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, Tensor, Tensor, TensorDict]:
        """Runs one step.

        Args:
            inputs: Float tensor `(rows, input_dim)`; rows is the batch size, or batch times
                beam (flat beams, batch major).
            state: The state, every leaf with leading dimension rows.
            memory: The result of `prepare`, with leading dimension batch.

        Returns:
            Output `(rows, units)`, context `(rows, context_dim)`, weights
            `(rows, source)`, state.
        """
        check_ready(self, inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        query, cell_state = self.compute_query(inputs, state, is_projected=False)
        # The beams of a source are its queries, so that the memory is not copied.
        rows, mask, previous_weights = get_shape(query)[0], memory["mask"], state.get("weights")
        context, weights, attention_state = self.attention.attend(
            unflatten_beams(query, mask),
            memory,
            None if previous_weights is None else unflatten_beams(previous_weights, mask),
            unflatten_beams(state["position"], mask),
            state={
                name: unflatten_beams(one, mask) for name, one in state.get("attention", {}).items()
            },
            return_state=True,
        )
        weights = self.mean_over_heads(weights)
        context, weights = flatten_beams(context, rows), flatten_beams(weights, rows)
        attention_state = {name: flatten_beams(one, rows) for name, one in attention_state.items()}
        output, state = self.update_state(
            inputs,
            state,
            query,
            cell_state,
            context,
            weights,
            attention_state=attention_state,
            is_projected=False,
        )
        return output, context, weights, state

    def mean_over_heads(self, weights: TensorLike) -> TensorLike:
        """Returns weights without the axis of heads, axis 1, if the attention has one."""
        return weights if self.attention.num_heads is None else ops.mean(weights, axis=1)

    def compute_query(
        self,
        inputs: TensorLike,
        state: TensorDict,
        training: bool | None = None,
        is_projected: bool = True,
    ) -> tuple[Tensor, Structure]:
        """Returns the query of a step and the state of the cell: the part before the attention.

        Args:
            inputs: Float tensor `(rows, ...)`, the inputs of the cell.
            state: The state before the step.
            training: Whether to apply the dropout of the cell.
            is_projected: Whether the inputs are projected, if the cell has a projection.
        """
        if self.order == "bahdanau":
            return self.adapter.get_output(state["cell"]), state["cell"]
        feedback = state.get("feedback")
        return self.adapter.step(inputs, feedback, state["cell"], training, is_projected)

    def update_state(
        self,
        inputs: TensorLike,
        state: TensorDict,
        query: TensorLike,
        cell_state: Structure,
        context: TensorLike,
        weights: TensorLike,
        training: bool | None = None,
        attention_state: TensorDict | None = None,
        is_projected: bool = True,
    ) -> tuple[Tensor, TensorDict]:
        """Returns the output and the new state of a step: the part after the attention.

        Args:
            inputs, state, training, is_projected: As in `compute_query`.
            query, cell_state: The result of `compute_query`.
            context: Float tensor `(rows, context_dim)`.
            weights: Float tensor `(rows, source)`.
            attention_state: The new state of the attention, if it has one.
        """
        new_state = {"position": state["position"] + 1}
        if self.order == "bahdanau":
            output, cell_state = self.adapter.step(
                inputs, context, cell_state, training, is_projected
            )
        else:
            output = self.attentional_vector(context, query)
            if self.input_feeding:
                feedback = context if self.attentional is None else output
                new_state["feedback"] = ops.cast(feedback, self.compute_dtype)
        if self._history_mode:
            earlier = state["weights"] if self._history_mode == "accumulated" else 0
            new_state["weights"] = ops.cast(weights, wide_dtype(self.compute_dtype)) + earlier
        if attention_state:
            new_state["attention"] = attention_state
        return output, {**new_state, "cell": cell_state}

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        initial_state: Structure = None,
        inputs_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        training: bool | None = None,
        return_context: bool = False,
        return_attention_scores: bool = False,
        return_auxiliary_outputs: bool = False,
        return_state: bool = False,
    ) -> Outputs:
        self._check_shapes(inputs.shape, memory.shape)
        masks = self._check_masks(inputs, memory, inputs_mask, memory_mask)
        inputs_mask, memory_mask = masks
        prepared = self.prepare(memory, memory_mask)
        state = self.start(prepared, initial_state)
        outputs, contexts, weights, auxiliary_outputs, state = self.run(
            inputs, state, prepared, inputs_mask, training
        )
        return select_outputs(
            outputs,
            (return_context, contexts),
            (return_attention_scores, weights),
            (return_auxiliary_outputs, auxiliary_outputs),
            (return_state, state),
        )

    def run(
        self,
        inputs: TensorLike,
        state: TensorDict,
        memory: TensorDict,
        inputs_mask: TensorLike | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, TensorDict, TensorDict]:
        """Runs all steps; returns outputs, contexts, weights, auxiliary outputs and state."""
        return _attention_loop.run(self, inputs, state, memory, inputs_mask, training)

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the outputs besides context and weights."""
        return self.attention.auxiliary_outputs

    @property
    def _has_feedback(self):
        return self.order == "luong" and self.input_feeding

    @property
    def _has_attention_state(self):
        return bool(self.attention.state_sizes(None))

    @property
    def needs_attention_in_loop(self) -> bool:
        """Whether a step of the cell needs the attention of this step, or of an earlier one."""
        has_state = bool(self._history_mode) or self._has_attention_state
        return self.order == "bahdanau" or self.input_feeding or has_state

    def attentional_vector(self, context: TensorLike, output: TensorLike) -> Tensor:
        """Returns h~ = tanh(W_c [c; h]), or the output itself if `attentional_units` is 0."""
        if self.attentional is None:
            return output
        return self.attentional(ops.concatenate([context, output], axis=-1))

    def _check_shapes(self, inputs_shape, memory_shape):
        owner = "AttentionRNN"
        validation.check_axes(owner, "inputs", inputs_shape, "(batch, time, input_dim)")
        validation.check_axes(owner, "memory", memory_shape, "(batch, source, memory_dim)")
        validation.check_same_size("AttentionRNN", 0, inputs=inputs_shape, memory=memory_shape)
        built = (self.input_dim, self.memory_dim) if self.built else None
        if built not in (None, (inputs_shape[-1], memory_shape[-1])):
            raise ValueError(
                f"AttentionRNN was built for inputs and memory of widths {built}. Received: "
                f"inputs.shape={tuple(inputs_shape)}, memory.shape={tuple(memory_shape)}"
            )

    def _check_masks(self, inputs, memory, inputs_mask, memory_mask):
        """Returns both masks as booleans."""
        given = (
            ("inputs_mask", inputs_mask, inputs, "(batch, time)"),
            ("memory_mask", memory_mask, memory, "(batch, source)"),
        )
        return [
            validation.fit_mask("AttentionRNN", name, mask, tensor, axes)
            for name, mask, tensor, axes in given
        ]

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self,
        inputs_shape: Shape,
        memory_shape: Shape,
        initial_state_shape: Shape | Sequence[Shape] | None = None,
    ) -> OutputShape:
        self._check_shapes(inputs_shape, memory_shape)
        return (*tuple(inputs_shape)[:2], self.attentional_dim or self.adapter.output_dim)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        inputs, memory = call.inputs, call.memory
        self._check_shapes(inputs.shape, memory.shape)
        self._check_masks(inputs, memory, call.inputs_mask, call.memory_mask)
        self.adapter.check_state(call.initial_state)
        batch, time = inputs.shape[:2]
        context_dim = self._get_context_dim(memory.shape)

        def spec(*shape, dtype=self.compute_dtype):
            return keras.KerasTensor(shape, dtype=dtype)

        output = spec(*self.compute_output_shape(inputs.shape, memory.shape))
        names = self.auxiliary_outputs
        auxiliary = {name: spec(batch, time, dtype="float32") for name in names}
        state = {
            "cell": keras.tree.map_structure(
                lambda size: spec(batch, size), self.adapter.state_size
            ),
            "position": spec(batch, dtype="int32"),
        }
        if self._has_feedback:
            state["feedback"] = spec(batch, self.attentional_dim or context_dim)
        if self._history_mode:
            wide = wide_dtype(self.compute_dtype)
            state["weights"] = spec(batch, memory.shape[1], dtype=wide)
        if self._has_attention_state:
            state["attention"] = {
                name: spec(batch, size, dtype=wide_dtype(self.attention.compute_dtype))
                for name, size in self.attention.state_sizes(memory.shape[1]).items()
            }
        return select_outputs(
            output,
            (call.return_context, spec(batch, time, context_dim)),
            (call.return_attention_scores, spec(batch, time, memory.shape[1])),
            (call.return_auxiliary_outputs, auxiliary),
            (call.return_state, state),
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "order": self.order,
            "input_feeding": self.input_feeding,
            "attentional_units": self.attentional_units,
            "attentional_activation": keras.activations.serialize(self.attentional_activation),
            "attention_history": self.attention_history,
        }
