"""The decoder layer of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x = LN(x + drop(MultiHead(x, x, x)))             position i attends to positions 0 to i
    x = LN(x + drop(MultiHead(x, memory, memory)))
    x = LN(x + drop(FFN(x)))                                 section 3.1

Code name -> paper name: `num_heads` -> h, `feed_forward_dim` -> d_ff, `inputs` -> x, `memory` ->
the encoder's output. For pre-normalization see `_base`. In a step x is one position, and the keys
and values of the earlier ones are in the state.
"""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import bind_call
from keras_attention._utils.flat_beams import (
    flatten_beams,
    gather_beams,
    infer_batch_and_beams,
    unflatten_beams,
)
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
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
from keras_attention.attention._beam_ancestry import (
    attend_with_ancestry,
    reorder_ancestry,
    start_ancestry,
)
from keras_attention.attention._key_value_cache import should_gather
from keras_attention.attention.multi_head import MultiHeadAttention
from keras_attention.transformer._base import TransformerLayer
from keras_attention.transformer.embedding import MAX_LENGTH
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoderLayer(TransformerLayer):
    """Attends to earlier positions and to a memory, then transforms each position.

    `TransformerDecoder` is a stack of these with embedding and logits. Repeated calls of `step`
    equal the full call.

    Args: as `TransformerEncoderLayer`; `window`, `rotary`, `relative_keys` and `relative_values`
        apply to the attention to earlier positions, where a window ends at its center.

    Call arguments:
        inputs: Float tensor `(batch, target, dim)`.
        memory: Float tensor `(batch, source, memory_dim)`, the encoder's output.
        inputs_mask: Boolean `(batch, target)`, True at positions that attend and may be attended
            to.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        return_attention_scores: Whether to return the weights over the memory as well (Keras'
            name).
        training: Whether dropout is applied.

    Returns:
        A tensor of the shape of `inputs`, or the pair of it and the weights
        `(batch, heads, target, source)` if `return_attention_scores`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not divide the width.

    Masking: uses the masks of both tensors and propagates that of `inputs`. Masked positions get
        zeros.

    Example:

    >>> layer = TransformerDecoderLayer(num_heads=2, feed_forward_dim=16)
    >>> inputs, memory = keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 6))
    >>> outputs, weights = layer(inputs, memory, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((3, 5, 8), (3, 2, 5, 7))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    sublayers: tuple[str, ...] = ("self_attention", "cross_attention", "feed_forward")

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:
        self.check_inputs(inputs_shape, memory=memory_shape)
        self.build_shared(inputs_shape)
        dim = inputs_shape[-1]
        self.self_attention: MultiHeadAttention = self.make_attention(
            dim, "self_attention", uses_positions=True
        )
        self.self_attention.build(inputs_shape, inputs_shape)
        self.cross_attention: MultiHeadAttention = self.make_attention(dim, "cross_attention")
        self.cross_attention.build(inputs_shape, memory_shape)
        self.built = True

    def prepare(self, memory: TensorLike, memory_mask: TensorLike | None = None) -> TensorDict:
        """Returns the keys and values of the memory, projected once, and its mask."""
        return self.cross_attention.prepare(memory, value_mask=memory_mask)

    def start(self, memory: TensorDict, max_length: int | None = None) -> TensorDict:
        """Returns the state before the first step.

        Args:
            memory: The result of `prepare`.
            max_length: Int, the maximum number of steps; None is 256.

        Returns:
            A dict of `position`, int32 `(rows,)`; `cache`, the keys and values of the
            positions so far, see `MultiHeadAttention.start_cache`; and `ancestry`, int32
            `(rows, max_length)`, the beam that wrote each of them, see `reorder_cache`. A small
            cache outside of XLA has no `ancestry`: its beams are gathered.
        """
        rows, length = get_shape(memory["mask"])[0], max_length
        length = MAX_LENGTH if length is None else length
        cache = self.self_attention.start_cache(rows, length)
        state = {"position": ops.zeros((rows,), dtype="int32"), "cache": cache}
        if should_gather(cache):
            return state
        return {**state, "ancestry": start_ancestry(rows, length)}

    def reorder_cache(self, state: TensorDict, parents: TensorLike) -> TensorDict:
        """Returns the state of the beams that grew from `parents`, see `Decoder.reorder_cache`.

        Keys and values stay where they were written, and every beam stores which beam of its
        source wrote them. A search that gathers all leaves instead is correct, too.
        """
        if "ancestry" not in state:
            return gather_beams(state, parents)
        cache, ancestry = state["cache"], state["ancestry"]
        reordered = {"position": state["position"], "mask": cache["mask"]}
        reordered = gather_beams(reordered, parents)
        return {
            "position": reordered["position"],
            "cache": {**cache, "mask": reordered["mask"]},
            "ancestry": reorder_ancestry(ancestry, cache["mask"], parents),
        }

    def step(
        self, inputs: TensorLike, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Transforms one position of each hypothesis.

        Args:
            inputs: Float tensor `(rows, dim)`; rows is the batch size, or batch times beam.
            state: The state, every leaf `(rows, ...)`.
            memory: The result of `prepare`, with leading dimension batch.

        Returns:
            Outputs `(rows, dim)`, the new state, and the weights `(rows, heads, source)`.
        """
        check_ready(self, inputs)
        position, memory_mask = state["position"], memory["mask"]
        inputs = ops.cast(inputs, self.compute_dtype)
        query = self.get_sublayer_input("self_attention", inputs)
        cache = self.self_attention.extend_cache(
            state["cache"], query, position, places=state.get("places")
        )
        read = {**cache, "mask": self._restrict_to_window(cache["mask"], position)}
        rows = get_shape(position)[0]
        num_beams = infer_batch_and_beams(rows, memory_mask)[1]
        ancestry = state.get("ancestry")
        # The number of beams is a tensor where sizes are unknown.
        if ancestry is None or (isinstance(num_beams, int) and num_beams == 1):
            context, _ = self.self_attention.attend(query, read, position=position)
        else:
            context = attend_with_ancestry(
                self.self_attention, query, read, ancestry, memory_mask, position
            )
        # Explicit, because inside another layer's call Keras would pass its `training`.
        states = self.add_residual("self_attention", inputs, context, training=False)
        query = self.get_sublayer_input("cross_attention", states)
        # The beams of a source are its queries, so that the memory is not copied.
        context, weights = self.cross_attention.attend(
            unflatten_beams(query, memory_mask, rows), memory
        )
        weights = flatten_beams(ops.transpose(weights, (0, 2, 1, 3)), rows)
        context = flatten_beams(context, rows)
        states = self.add_residual("cross_attention", states, context, training=False)
        states = self.apply_feed_forward(states, training=False)
        after = {"position": position + 1, "cache": cache}
        return states, after if ancestry is None else {**after, "ancestry": ancestry}, weights

    def _restrict_to_window(self, mask, position):
        """Returns which positions of a cache a query at `position` attends to."""
        if self._radius is None:
            return mask
        places = ops.arange(get_shape(mask)[1], dtype="int32")[None, :]
        return ops.logical_and(mask, places >= position[:, None] - self._radius)

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        inputs_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        inputs_mask, memory_mask = self._check_masks(inputs, memory, inputs_mask, memory_mask)
        inputs = zero_masked(inputs, inputs_mask)
        query = self.get_sublayer_input("self_attention", inputs)
        context = self.self_attention(
            query,
            query,
            query_mask=inputs_mask,
            value_mask=inputs_mask,
            attention_mask=self.window_mask(get_shape(query)[1]),
            use_causal_mask=True,
            training=training,
        )
        states = self.add_residual("self_attention", inputs, context, training)
        results = self.cross_attention(
            self.get_sublayer_input("cross_attention", states),
            memory,
            query_mask=inputs_mask,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        context, *weights = results if return_attention_scores else (results,)
        states = self.add_residual("cross_attention", states, context, training)
        states = self.apply_feed_forward(states, training)
        outputs = zero_masked(states, inputs_mask)
        return (outputs, *weights) if return_attention_scores else outputs

    def _check_masks(self, inputs, memory, inputs_mask, memory_mask):
        """Returns both masks as booleans, after checking the shapes."""
        owner = type(self).__name__
        self.check_inputs(inputs.shape, memory=memory.shape)
        given = (("inputs_mask", inputs_mask, inputs), ("memory_mask", memory_mask, memory))
        return [
            validation.fit_mask(owner, name, mask, tensor, "(batch, length)")
            for name, mask, tensor in given
        ]

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask[0] if isinstance(previous_mask, (list, tuple)) else previous_mask

    def compute_output_shape(
        self, inputs_shape: Shape, memory_shape: Shape | None = None
    ) -> OutputShape:
        self.check_inputs(inputs_shape, **({"memory": memory_shape} if memory_shape else {}))
        return tuple(inputs_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        inputs, memory = call.inputs, call.memory
        self._check_masks(inputs, memory, call.inputs_mask, call.memory_mask)
        outputs = keras.KerasTensor(tuple(inputs.shape), dtype=self.compute_dtype)
        shape = (inputs.shape[0], self.num_heads, inputs.shape[1], memory.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if call.return_attention_scores else outputs
