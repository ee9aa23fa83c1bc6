"""The decoder layer of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x = LN(x + drop(MultiHead(x, x, x)))             position i reads the positions 0 to i
    x = LN(x + drop(MultiHead(x, memory, memory)))
    x = LN(x + drop(FFN(x)))                                 section 3.1

Code name -> paper name: `num_heads` -> h, `feed_forward_dim` -> d_ff, `inputs` -> x, `memory` ->
the encoder's output. Normalization before each sublayer: `base.py`. In a step x is one position,
and the keys and values of the earlier ones are in the state.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.beams import by_row, by_source, follow
from keras_attention.checks import check_ready
from keras_attention.mechanisms.shared_cache import attend_in_place, followed, start_writers
from keras_attention.transformer.base import TransformerLayer, kept
from keras_attention.transformer.embedding import MAX_LENGTH


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoderLayer(TransformerLayer):
    """Lets every position read itself and earlier ones, then a memory, then transforms it.

    `TransformerDecoder` is a stack of these with embedding and logits. `step` repeated
    equals the call.

    Args: as `TransformerEncoderLayer`; `window` and `rotary` concern the attention to earlier
        positions, a window ends at its center.

    Call arguments:
        inputs: Float tensor `(batch, target, dim)`.
        memory: Float tensor `(batch, source, memory_dim)`, the encoder's output.
        inputs_mask: Boolean `(batch, target)`, True for positions that read and may be read.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read.
        return_attention_scores: Whether the weights over the memory are returned too (Keras'
            name).
        training: Whether dropout is applied.

    Returns:
        A tensor of the shape of `inputs`, or the pair of it and the weights
        `(batch, heads, target, source)` if `return_attention_scores`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not divide the width.

    Masking: reads the masks of both tensors and passes that of `inputs` on. A masked position
        gets zeros.

    Example:

    >>> layer = TransformerDecoderLayer(num_heads=2, feed_forward_dim=16)
    >>> inputs, memory = keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 6))
    >>> outputs, weights = layer(inputs, memory, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((3, 5, 8), (3, 2, 5, 7))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    sublayers = ("self_attention", "cross_attention", "feed_forward")

    def build(self, inputs_shape, memory_shape):
        self.check_inputs(inputs_shape, memory=memory_shape)
        self.build_shared(inputs_shape)
        dim = inputs_shape[-1]
        self.self_attention = self.make_attention(dim, "self_attention", self.rotary)
        self.self_attention.build(inputs_shape, inputs_shape)
        self.cross_attention = self.make_attention(dim, "cross_attention")
        self.cross_attention.build(inputs_shape, memory_shape)
        self.built = True

    def prepare(self, memory, memory_mask=None):
        """Returns the keys and values of the memory, projected once, and its mask."""
        return self.cross_attention.prepare(memory, value_mask=memory_mask)

    def start(self, memory, max_length=None):
        """Returns the state before the first step.

        Args:
            memory: What `prepare` returned.
            max_length: Int, how many steps there must be room for; None is 256.

        Returns:
            A dict of `position`, int32 `(rows,)`; `cache`, the keys and values of the
            positions so far, see `MultiHeadAttention.start_cache`; and `writers`, int32
            `(rows, max_length)`, which beam wrote each of them, see `reorder`.
        """
        rows, length = ops.shape(memory["mask"])[0], max_length
        length = MAX_LENGTH if length is None else length
        return {
            "position": ops.zeros((rows,), dtype="int32"),
            "cache": self.self_attention.start_cache(rows, length),
            "writers": start_writers(rows, length),
        }

    def reorder(self, state, parents):
        """Returns the state of the beams that grew from `parents`, see `Decoder.reorder`.

        Keys and values stay where they were written, and every beam keeps in whose row of its
        source it finds its own. A search that gathers the rows of all leaves is right too.
        """
        cache, writers = state["cache"], state["writers"]
        moved = {"position": state["position"], "mask": cache["mask"]}
        moved = follow(moved, parents)
        return {
            "position": moved["position"],
            "cache": {**cache, "mask": moved["mask"]},
            "writers": followed(writers, cache["mask"], parents),
        }

    def step(self, inputs, state, memory):
        """Transforms one position of each row.

        Args:
            inputs: Float tensor `(rows, dim)`; rows is the batch, or batch times beam.
            state: The state, every leaf `(rows, ...)`.
            memory: What `prepare` returned, with leading dimension batch.

        Returns:
            Outputs `(rows, dim)`, the new state, and the weights `(rows, heads, source)`.
        """
        check_ready(self, inputs)
        position, cache, writers = state["position"], state["cache"], state["writers"]
        weights = None

        def attend(states):
            nonlocal cache
            cache = self.self_attention.extend_cache(cache, states, position)
            read = {**cache, "mask": self._recent(cache["mask"], position)}
            mask = memory["mask"]
            return attend_in_place(self.self_attention, states, read, writers, mask, position)

        def attend_memory(states):
            nonlocal weights
            context, weights = self._attend_by_source(states, memory, ops.shape(position)[0])
            return context

        states = ops.cast(inputs, self.compute_dtype)
        # Said, for inside another layer's call Keras hands its `training` on.
        states = self.residual("self_attention", states, attend, training=False)
        states = self.residual("cross_attention", states, attend_memory, training=False)
        states = self.residual("feed_forward", states, self.feed_forward, training=False)
        return states, {"position": position + 1, "cache": cache, "writers": writers}, weights

    def _attend_by_source(self, states, memory, rows):
        """Attends to the memory; the rows of a source are its queries, so nothing is copied."""
        query = by_source(states, memory["mask"], rows)
        context, weights = self.cross_attention.attend(query, memory)
        weights = ops.transpose(weights, (0, 2, 1, 3))  # (batch, width, heads, source)
        return by_row(context, rows), by_row(weights, rows)

    def _recent(self, mask, position):
        """Returns which places of a cache a query at `position` reads."""
        if self._radius is None:
            return mask
        places = ops.arange(ops.shape(mask)[1], dtype="int32")[None, :]
        return ops.logical_and(mask, places >= position[:, None] - self._radius)

    def call(
        self,
        inputs,
        memory,
        inputs_mask=None,
        memory_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        inputs_mask, memory_mask = self._checked_masks(inputs, memory, inputs_mask, memory_mask)
        weights = None

        def attend(states):
            return self.self_attention(
                states,
                states,
                query_mask=inputs_mask,
                value_mask=inputs_mask,
                attention_mask=self.near(ops.shape(states)[1]),
                use_causal_mask=True,
                training=training,
            )

        def attend_memory(states):
            nonlocal weights
            context = self.cross_attention(
                states,
                memory,
                query_mask=inputs_mask,
                value_mask=memory_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                context, weights = context
            return context

        states = self.residual("self_attention", kept(inputs, inputs_mask), attend, training)
        states = self.residual("cross_attention", states, attend_memory, training)
        states = self.residual("feed_forward", states, self.feed_forward, training)
        outputs = kept(states, inputs_mask)
        return (outputs, weights) if return_attention_scores else outputs

    def _checked_masks(self, inputs, memory, inputs_mask, memory_mask):
        """Returns both masks as booleans, and checks the shapes."""
        owner = type(self).__name__
        self.check_inputs(inputs.shape, memory=memory.shape)
        given = (("inputs_mask", inputs_mask, inputs), ("memory_mask", memory_mask, memory))
        return [
            checks.boolean_mask(owner, name, mask, tuple(tensor.shape[:2]), "(batch, length)")
            for name, mask, tensor in given
        ]

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask[0] if isinstance(previous_mask, (list, tuple)) else previous_mask

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        self.check_inputs(inputs_shape, **({"memory": memory_shape} if memory_shape else {}))
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs,
        memory,
        inputs_mask=None,
        memory_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._checked_masks(inputs, memory, inputs_mask, memory_mask)
        outputs = keras.KerasTensor(tuple(inputs.shape), dtype=self.compute_dtype)
        shape = (inputs.shape[0], self.num_heads, inputs.shape[1], memory.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if return_attention_scores else outputs
