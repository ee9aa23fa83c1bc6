"""Attention around a recurrent cell, in the two orders of the literature.

    "bahdanau"   a_t from s_{t-1};  s_t = cell([x_t; c_t], s_{t-1})
    "luong"      h_t = cell(x_t, h_{t-1});  a_t from h_t;  h~_t = tanh(W_c [c_t; h_t])

Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473), section 3.1; Luong et al. 2015
(https://arxiv.org/abs/1508.04025), section 3, equation 5, and 3.3, input feeding: the cell
reads [x_t; h~_{t-1}].
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.beams import attend_by_source
from keras_attention.checks import check_ready
from keras_attention.layer import Layer
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.precision import wide_dtype
from keras_attention.products import Dense
from keras_attention.recurrent import attention_loop
from keras_attention.recurrent.cells import CellAdapter


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionRNN(Layer):
    """Runs a cell over a sequence while it attends to a memory.

    The memory is an argument of the call and is prepared once for all steps. Where
    nothing recurrent needs the attention (order "luong" without input feeding) all steps
    are attended at once, after the loop.

    Args:
        cell: Any Keras cell, or a list of cells to stack. The first tensor of its (top)
            state is its output, as in all cells of Keras.
        attention: An attention mechanism, for example `BahdanauAttention(64)`.
        order: "bahdanau" attends with the previous state and feeds the context to the
            cell; "luong" attends with the cell's new output.
        input_feeding: With order "luong", whether the previous attentional vector (or the
            context where there is none) is fed to the cell beside its input.
        attentional_units: With order "luong", the size of the attentional vector h~, by
            default that of the cell's output, as in the paper; 0 to return the cell's
            outputs instead, for readouts that take `return_context`.
        attentional_activation: Activation of the attentional vector; None for a linear one.
        carried_weights: Which weights the attention is shown at each step: "previous", those
            of the step before, or "accumulated", the sum over all steps before. By default
            what its pieces look at: `MonotonicNormalizer` and `LocationSensitiveScorer` the
            previous ones, `CoverageScorer` the accumulated.

    Call arguments:
        inputs: Float tensor `(batch, time, input_dim)`.
        memory: Float tensor `(batch, source, memory_dim)`, what is attended to.
        initial_state: Optional state of the cell: a tensor `(batch, units)`, or the list
            (of lists, for a stack) that the cell uses. Zeros by default.
        inputs_mask: Boolean `(batch, time)`. A masked step copies the state; its outputs
            and weights are 0.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read.
        return_context: Whether the contexts are returned too.
        return_attention_scores: Whether the weights are returned too.
        return_details: Whether the details of the attention are returned too: a dict of
            float32 tensors `(batch, time)`, empty for most mechanisms.
        return_state: Whether the last state is returned too.

    Returns:
        The outputs `(batch, time, units)`, followed by what was asked for, in this order:
        contexts `(batch, time, memory_dim)`, weights `(batch, time, source)`, details, state.

    State: a dict with `cell` (the cell's list), `position`, int32 `(rows,)`, the number of
        steps done, with input feeding `fed`, `(rows, fed_dim)`, and with carried weights
        `weights`, `(rows, source)`, in at least float32.

    Raises:
        ValueError: If an argument is unknown, two do not go together, or shapes do not fit.

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
        cell,
        attention,
        order="luong",
        input_feeding=False,
        attentional_units=None,
        attentional_activation="tanh",
        carried_weights=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        if isinstance(attention, dict):
            attention = keras.saving.deserialize_keras_object(attention)
        if not isinstance(attention, AttentionMechanism):
            raise ValueError(
                "AttentionRNN expects `attention` to be a mechanism of this package, for "
                "example `BahdanauAttention(units)` or `Attention(scorer)`. "
                f"Received: attention={attention!r}"
            )
        if attention.has_heads:
            raise ValueError(
                "AttentionRNN reads with one set of weights a step and cannot keep those of "
                "several heads. Use a mechanism without heads, for example `Attention(scorer)`. "
                f"Received: attention={attention!r}"
            )
        self.adapter = CellAdapter("AttentionRNN", cell)
        self.cell = self.adapter.cell
        self.attention = attention
        self.order = checks.one_of("AttentionRNN", "order", order, ("bahdanau", "luong"))
        if order == "bahdanau" and (input_feeding or attentional_units is not None):
            raise ValueError(
                "AttentionRNN with order='bahdanau' feeds the context to the cell and has no "
                "attentional vector; `input_feeding` and `attentional_units` go with "
                f"order='luong'. Received: input_feeding={input_feeding!r}, "
                f"attentional_units={attentional_units!r}"
            )
        choices = (None, "previous", "accumulated")
        self.carried_weights = checks.one_of(
            "AttentionRNN", "carried_weights", carried_weights, choices
        )
        self._carries = carried_weights or attention.reads_weights
        if self._carries == "accumulated" and attention.normalizer.reads_weights:
            raise ValueError(
                "AttentionRNN cannot accumulate weights for a normalizer that needs those of the "
                f"last step. Received: carried_weights={carried_weights!r}, "
                f"normalizer={type(attention.normalizer).__name__}"
            )
        self.input_feeding = bool(input_feeding)
        self.attentional_units = attentional_units
        self.attentional_activation = keras.activations.get(attentional_activation)
        self.attentional = None
        self.attentional_dim = 0
        if order == "luong":
            if attentional_units is None:
                attentional_units = self.adapter.output_dim
            hint = "0 returns the cell's outputs."
            self.attentional_dim = checks.int_at_least(
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

    def build(self, inputs_shape, memory_shape, initial_state_shape=None):
        self._check_shapes(inputs_shape, memory_shape)
        batch, memory_dim = inputs_shape[0], memory_shape[-1]
        output_dim = self.adapter.output_dim
        if self.order == "bahdanau":
            self.fed_dim = memory_dim
        else:
            self.fed_dim = (self.attentional_dim or memory_dim) if self.input_feeding else 0
        self.input_dim = inputs_shape[-1]
        self.memory_dim = memory_dim
        self.adapter.build((batch, self.input_dim + self.fed_dim))
        if not self.attention.built:
            self.attention.build((batch, None, output_dim), memory_shape)
        if self.attentional is not None:
            self.attentional.build((batch, None, memory_dim + output_dim))
        self.built = True

    def prepare(self, memory, memory_mask=None):
        """Returns what depends on the memory alone: the dict of `attention.prepare`."""
        check_ready(self, memory)
        if memory.shape[-1] != self.memory_dim:
            raise ValueError(
                f"AttentionRNN was built for `memory` of width {self.memory_dim}. "
                f"Received: memory.shape={tuple(memory.shape)}"
            )
        return self.attention.prepare(memory, value_mask=memory_mask)

    def start(self, memory, initial_state=None):
        """Returns the state before the first step, for what `prepare` returned."""
        check_ready(self, memory["mask"])
        rows = ops.shape(memory["mask"])[0]
        state = {
            "cell": self.adapter.start(rows, initial_state),
            "position": ops.zeros((rows,), dtype="int32"),
        }
        if self._feeds_back:
            state["fed"] = ops.zeros((rows, self.fed_dim), dtype=self.compute_dtype)
        if self._carries:
            source = ops.shape(memory["mask"])[1]
            weights = ops.zeros((rows, source), dtype=wide_dtype(self.compute_dtype))
            if self._carries == "previous":
                weights = self.attention.normalizer.initial_weights(rows, source)
            # Sums over many steps need more than float16.
            state["weights"] = ops.cast(weights, wide_dtype(self.compute_dtype))
        return state

    def step(self, inputs, state, memory):
        """Does one step.

        Args:
            inputs: Float tensor `(rows, input_dim)`; rows is the batch, or batch times
                beam, row-major by batch.
            state: The state, every leaf with leading dimension rows.
            memory: What `prepare` returned, with leading dimension batch.

        Returns:
            Output `(rows, units)`, context `(rows, memory_dim)`, weights
            `(rows, source)`, state.
        """
        check_ready(self, inputs)
        inputs = self.adapter.project(ops.cast(inputs, self.compute_dtype))
        position = state["position"]
        (output, context, weights, _), state = self.advance(inputs, state, memory, beams=True)
        if context is None:
            context, weights, _ = self._read(output, memory, position, beams=True)
            output = self.attentional_vector(context, output)
        return output, context, weights, state

    def call(
        self,
        inputs,
        memory,
        initial_state=None,
        inputs_mask=None,
        memory_mask=None,
        training=None,
        return_context=False,
        return_attention_scores=False,
        return_details=False,
        return_state=False,
    ):
        self._check_shapes(inputs.shape, memory.shape)
        masks = self._checked_masks(inputs, memory, inputs_mask, memory_mask)
        inputs_mask, memory_mask = masks
        prepared = self.prepare(memory, memory_mask)
        state = self.start(prepared, initial_state)
        results = self.run(inputs, state, prepared, inputs_mask, training)
        wanted = (True, return_context, return_attention_scores, return_details, return_state)
        results = [result for result, want in zip(results, wanted, strict=True) if want]
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs, state, memory, inputs_mask=None, training=None):
        """Does all steps of `inputs`; returns outputs, contexts, weights, details and state."""
        return attention_loop.run(self, inputs, state, memory, inputs_mask, training)

    @property
    def details(self):
        """Names of what a reading tells besides context and weights."""
        return self.attention.details

    @property
    def _feeds_back(self):
        return self.order == "luong" and self.input_feeding

    @property
    def recurrent_attention(self):
        """Whether a step of the cell needs the attention of this or an earlier step."""
        return self.order == "bahdanau" or self.input_feeding or bool(self._carries)

    def advance(self, inputs, state, memory, noise=None, training=None, beams=False):
        """One step from projected inputs: (output, context, weights, details), state.

        Without recurrent attention all but the output are None: the caller attends.
        """
        position = state["position"]
        new_state = {"position": position + 1}
        options = {
            "previous_weights": state.get("weights"),
            "noise": noise,
            "training": training,
            "beams": beams,
        }
        if self.order == "bahdanau":
            query = self.adapter.output_of(state["cell"])
            context, weights, details = self._read(query, memory, position, **options)
            output, new_state["cell"] = self.adapter.step(inputs, context, state["cell"], training)
        else:
            output, new_state["cell"] = self.adapter.step(
                inputs, state.get("fed"), state["cell"], training
            )
            if not self.recurrent_attention:
                return (output, None, None, None), new_state
            context, weights, details = self._read(output, memory, position, **options)
            output = self.attentional_vector(context, output)
            if self.input_feeding:
                new_state["fed"] = context if self.attentional is None else output
        if self._carries:
            earlier = state["weights"] if self._carries == "accumulated" else 0
            new_state["weights"] = ops.cast(weights, wide_dtype(self.compute_dtype)) + earlier
        return (output, context, weights, details), new_state

    def attentional_vector(self, context, output):
        """h~ = tanh(W_c [c; h]), or the output itself where no such vector was asked for."""
        if self.attentional is None:
            return output
        return self.attentional(ops.concatenate([context, output], axis=-1))

    def _read(
        self,
        query,
        memory,
        position,
        previous_weights=None,
        noise=None,
        training=None,
        beams=False,
    ):
        """Attends with one query a row; with `beams`, several rows share one source."""
        if not beams:
            return self.attention.attend(
                query, memory, previous_weights, position, noise, training, return_details=True
            )
        context, weights = attend_by_source(
            self.attention, query, memory, previous_weights, position
        )
        return context, weights, {}

    def _check_shapes(self, inputs_shape, memory_shape):
        for name, shape, axes in (
            ("inputs", inputs_shape, "(batch, time, input_dim)"),
            ("memory", memory_shape, "(batch, source, memory_dim)"),
        ):
            if len(shape) != 3 or shape[-1] is None:
                raise ValueError(
                    f"AttentionRNN expects `{name}` of shape {axes} with a known last "
                    f"dimension. Received: {name}.shape={tuple(shape)}"
                )
        checks.same_dim("AttentionRNN", 0, inputs=inputs_shape, memory=memory_shape)
        built = (self.input_dim, self.memory_dim) if self.built else None
        if built not in (None, (inputs_shape[-1], memory_shape[-1])):
            raise ValueError(
                f"AttentionRNN was built for inputs and memory of widths {built}. Received: "
                f"inputs.shape={tuple(inputs_shape)}, memory.shape={tuple(memory_shape)}"
            )

    def _checked_masks(self, inputs, memory, inputs_mask, memory_mask):
        """Returns both masks as booleans."""
        given = (
            ("inputs_mask", inputs_mask, inputs, "(batch, time)"),
            ("memory_mask", memory_mask, memory, "(batch, source)"),
        )
        return [
            checks.boolean_mask("AttentionRNN", name, mask, tuple(tensor.shape[:2]), axes)
            for name, mask, tensor, axes in given
        ]

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, inputs_shape, memory_shape, initial_state_shape=None):
        self._check_shapes(inputs_shape, memory_shape)
        return (*tuple(inputs_shape)[:2], self.attentional_dim or self.adapter.output_dim)

    def compute_output_spec(
        self,
        inputs,
        memory,
        initial_state=None,
        inputs_mask=None,
        memory_mask=None,
        training=None,
        return_context=False,
        return_attention_scores=False,
        return_details=False,
        return_state=False,
    ):
        self._check_shapes(inputs.shape, memory.shape)
        self._checked_masks(inputs, memory, inputs_mask, memory_mask)
        self.adapter.check_state(initial_state)
        batch, time = inputs.shape[:2]

        def spec(*shape, dtype=self.compute_dtype):
            return keras.KerasTensor(shape, dtype=dtype)

        results = [spec(*self.compute_output_shape(inputs.shape, memory.shape))]
        if return_context:
            results.append(spec(batch, time, memory.shape[-1]))
        if return_attention_scores:
            results.append(spec(batch, time, memory.shape[1]))
        if return_details:
            names = self.details
            results.append({name: spec(batch, time, dtype="float32") for name in names})
        if return_state:
            sizes = self.adapter.state_size
            state = {
                "cell": keras.tree.map_structure(lambda size: spec(batch, size), sizes),
                "position": spec(batch, dtype="int32"),
            }
            if self._feeds_back:
                state["fed"] = spec(batch, self.attentional_dim or memory.shape[-1])
            if self._carries:
                state["weights"] = spec(
                    batch, memory.shape[1], dtype=wide_dtype(self.compute_dtype)
                )
            results.append(state)
        return results[0] if len(results) == 1 else tuple(results)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "order": self.order,
            "input_feeding": self.input_feeding,
            "attentional_units": self.attentional_units,
            "attentional_activation": keras.activations.serialize(self.attentional_activation),
            "carried_weights": self.carried_weights,
        }
