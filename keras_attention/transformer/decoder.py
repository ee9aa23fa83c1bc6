"""The decoder of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x_0    = drop(sqrt(d) E[y] + PE)                         sections 3.4 and 3.5
    x_n    = the n-th `TransformerDecoderLayer` of x_{n-1}   section 3.1
    logits = x_N E^T                                         section 3.4, E: the embedding's table

Code name -> paper name: `dim` -> d_model, `num_layers` -> N, `num_heads` -> h, `feed_forward_dim`
-> d_ff, `embedding` -> E. With normalization before each sublayer the stack ends in one of its own.
"""

import keras
import numpy as np
from keras import activations, ops

from keras_attention import checks
from keras_attention.alignment import aligned_layers, mean_weights
from keras_attention.decoder import Decoder
from keras_attention.mechanisms.rotary import RotaryPositions
from keras_attention.products import Dense
from keras_attention.shapes import reshape
from keras_attention.transformer.base import normalization_layer
from keras_attention.transformer.decoder_layer import TransformerDecoderLayer
from keras_attention.transformer.embedding import (
    MAX_LENGTH,
    TransformerEmbedding,
    shared_config,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoder(Decoder):
    """Predicts each next token from the earlier ones and a memory, by attention alone.

    The full call computes all positions at once, for training and rescoring; a search calls
    `prepare`, `start` and `step`, which keep the keys and values of earlier positions and
    project those of the memory once a source. `step` repeated equals the full call.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids.
        dim: Positive int, the width of embeddings and layers.
        num_layers: Positive int.
        num_heads: Positive int that divides `dim`.
        feed_forward_dim: Positive int; None is `4 * dim`.
        dropout: Float in [0, 1), the share dropped from embeddings and from what each
            sublayer adds.
        normalization: "post" or "pre", see `TransformerEncoderLayer`.
        positions: "sinusoidal", "learned" or "rotary".
        window: Odd int, see `TransformerDecoderLayer`; None reads all earlier positions.
        activation: Activation of the feed-forward nets.
        use_bias: Whether the attention's projections have biases.
        tie_output: Whether the logits are products with the embedding's table; otherwise they
            have a kernel and a bias of their own.
        embedding: Optional `keras.layers.Embedding` of `vocabulary_size` and `dim`, to be
            shared, as with an encoder over the same vocabulary; None makes one.
        alignment_layer: "last", "mean" or the index of the layer whose weights over the memory,
            averaged over the heads, are the alignment.
        max_length: Positive int, the longest target of learned positions, and how many steps a
            state has room for where `start` is not told.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[start, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: Taken as every decoder takes it, and not used: nothing is recurrent.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read. It wins
            over a mask attached to `encoder_outputs`, which arrives as
            `encoder_outputs_mask`.
        training: Whether dropout is applied.
        return_attention_scores: Whether the alignment is returned too.

    Returns:
        Logits `(batch, target, vocabulary_size)`, or the pair of them and the alignment
        `(batch, target, source)` if `return_attention_scores`. Both float32.

    Raises:
        ValueError: If an argument is out of range, `embedding` has other sizes, or the tensors
            do not fit together.

    Masking: reads the memory's mask. Padding at the end of `target_ids` needs none: no earlier
        position reads it.

    Example:

    >>> decoder = TransformerDecoder(vocabulary_size=11, dim=8, num_layers=2, num_heads=2)
    >>> logits = decoder(keras.ops.array([[2, 5, 4]]), keras.ops.ones((1, 7, 6)))
    >>> tuple(logits.shape)
    (1, 3, 11)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.
    """

    def __init__(
        self,
        vocabulary_size,
        dim,
        num_layers,
        num_heads,
        feed_forward_dim=None,
        dropout=0.1,
        normalization="post",
        positions="sinusoidal",
        window=None,
        activation="relu",
        use_bias=False,
        tie_output=True,
        embedding=None,
        alignment_layer="last",
        max_length=MAX_LENGTH,
        seed=None,
        **kwargs,
    ):
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = type(self).__name__
        self.dim = checks.positive_int(owner, "dim", dim)
        self.num_layers = checks.positive_int(owner, "num_layers", num_layers)
        self.feed_forward_dim = feed_forward_dim
        self.positions = positions
        self.tie_output = bool(tie_output)
        self.alignment_layer = _alignment_layer(owner, alignment_layer, num_layers)
        every = range(num_layers)
        self._aligned = [every[index] for index in aligned_layers(self.alignment_layer, every)]
        self.max_length = checks.positive_int(owner, "max_length", max_length)
        self.embed = TransformerEmbedding(
            vocabulary_size,
            dim,
            positions,
            dropout,
            max_length,
            embedding,
            mask_zero=False,
            seed=seed,
            dtype=self.dtype_policy,
            name="embed",
        )
        self.embedding = self.embed.embedding
        options = {
            "num_heads": num_heads,
            "feed_forward_dim": 4 * dim if feed_forward_dim is None else feed_forward_dim,
            "dropout": dropout,
            "normalization": normalization,
            "activation": activation,
            "window": window,
            "use_bias": use_bias,
        }
        self.stack = [
            TransformerDecoderLayer(
                **options,
                rotary=self._rotary(index),
                seed=self.seed_of(1 + 3 * index),
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(num_layers)
        ]
        first = self.stack[0]
        self.num_heads, self.normalization = first.num_heads, first.normalization
        self.activation, self.window, self.use_bias = first.activation, window, first.use_bias
        self.final_normalization = None
        if normalization == "pre":
            self.final_normalization = normalization_layer(self, "final_normalization")
        self.output_dense = None
        if not tie_output:
            self.output_dense = Dense(vocabulary_size, dtype=self.dtype_policy, name="output")

    def _rotary(self, index):
        if self.positions != "rotary":
            return None
        return RotaryPositions(dtype=self.dtype_policy, name=f"rotary_{index}")

    def check_shapes(self, target_ids_shape, encoder_outputs_shape):
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        self.embed.check_length("target", target_ids_shape[1])

    def build_layers(self, target_ids_shape, encoder_outputs_shape):
        if not self.embed.built:
            self.embed.build(target_ids_shape)
        states_shape = (*target_ids_shape, self.dim)
        for piece in (self.final_normalization, self.output_dense):
            if piece is not None:
                piece.build(states_shape)
        for layer in self.stack:
            layer.build(states_shape, encoder_outputs_shape)

    def readout(self, states):
        """Returns logits for states of any rank."""
        if self.final_normalization is not None:
            states = self.final_normalization(states)
        rows = reshape(states, (-1, self.dim))
        logits = self.embed.project(rows) if self.tie_output else self.output_dense(rows)
        return reshape(logits, (*ops.shape(states)[:-1], self.vocabulary_size))

    def prepare_memory(self, encoder_outputs, memory_mask):
        layers = [layer.prepare(encoder_outputs, memory_mask) for layer in self.stack]
        shared = {"mask": layers[0]["mask"]}
        return {**shared, "layers": [_without(layer, shared) for layer in layers]}

    def start_state(self, memory, initial_state, max_length):
        """Returns `layers`, a dict of each layer's keys and values, and what all layers share:
        `position`, `written` (the mask of the caches) and `writers`, all with the rows first."""
        if max_length is None:
            max_length = self.max_length
        if not ops.is_tensor(max_length):  # while a graph is traced a length may be unknown
            checks.positive_int("TransformerDecoder", "max_length", max_length)
            self.embed.check_length("max_length", max_length)
        parts = zip(self.stack, _parts(memory), strict=True)
        return _joined([layer.start(part, max_length) for layer, part in parts])

    def reorder(self, state, parents):
        first = self.stack[0].reorder(_layer_states(state)[0], parents)
        return {**_joined([first]), "layers": state["layers"]}

    def read_one(self, ids, state, memory):
        self._check_room(state)
        # Said, for inside another layer's call Keras hands its `training` on.
        states = self.embed(ids, state["position"], training=False)
        after, weights = [], []
        parts = zip(self.stack, _layer_states(state), _parts(memory), strict=True)
        for layer, old, part in parts:
            states, new, layer_weights = layer.step(states, old, part)
            after.append(new)
            weights.append(layer_weights)
        weights = [weights[index] for index in self._aligned]
        return self.readout(states), _joined(after), _over_heads(weights)

    def _check_room(self, state):
        """Raises where the next step has no room left; values of a traced graph are not known."""
        try:
            position = np.asarray(state["position"])
        except Exception:  # every backend has its own error for a symbolic tensor
            return
        room = state["written"].shape[1]
        if position.size and position.max() >= room:
            raise ValueError(
                f"{type(self).__name__} was started with room for {room} steps. Give `start` a "
                f"larger `max_length`. Received: a step at position {position.max()}, from 0"
            )

    def read_all(
        self, target_ids, encoder_outputs, initial_state, memory_mask, training, with_weights
    ):
        # Padding needs no mask: it comes last, and no earlier position reads it.
        states, weights = self.embed(target_ids, training=training), []
        for index, layer in enumerate(self.stack):
            wanted = with_weights and index in self._aligned
            results = layer(
                states,
                encoder_outputs,
                memory_mask=memory_mask,
                return_attention_scores=wanted,
                training=training,
            )
            states, *more = results if wanted else (results,)
            weights += more
        return self.readout(states), _over_heads(weights) if with_weights else None, {}

    def get_config(self):
        return {
            **super().get_config(),
            "dim": self.dim,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "feed_forward_dim": self.feed_forward_dim,
            "normalization": self.normalization,
            "positions": self.positions,
            "window": self.window,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "tie_output": self.tie_output,
            "embedding": shared_config(self.embedding),
            "alignment_layer": self.alignment_layer,
            "max_length": self.max_length,
        }


def _parts(memory):
    """Returns what each layer reads of the memory; the mask is one for all."""
    return [{**layer, "mask": memory["mask"]} for layer in memory["layers"]]


def _layer_states(state):
    """Returns the state of each layer. What they share is computed once in a graph."""
    shared = {name: state[name] for name in ("position", "writers")}
    caches = [{**layer, "mask": state["written"]} for layer in state["layers"]]
    return [{**shared, "cache": cache} for cache in caches]


def _joined(states):
    """Returns the state of the decoder: undoes `_layer_states`."""
    shared = {name: states[0][name] for name in ("position", "writers")}
    caches = [state["cache"] for state in states]
    shared["written"] = caches[0]["mask"]
    return {**shared, "layers": [_without(cache, {"mask"}) for cache in caches]}


def _without(tensors, names):
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _over_heads(weights):
    """Returns the mean of several layers' weights over their heads, which are axis 1."""
    return mean_weights([ops.mean(ops.cast(tensor, "float32"), axis=1) for tensor in weights])


def _alignment_layer(owner, value, num_layers):
    """Returns "last", "mean" or the index of a layer, or raises."""
    if isinstance(value, str):
        return checks.one_of(owner, "alignment_layer", value, ("last", "mean"))
    hint = 'Take "last", "mean" or the index of a layer.'
    checks.int_at_least(owner, "alignment_layer", value, -num_layers, hint)
    bound = {"low": -num_layers, "high": num_layers - 1}
    return int(checks.number_in_range(owner, "alignment_layer", value, **bound, hint=hint))
