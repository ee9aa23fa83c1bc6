"""The decoder of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x_0    = drop(sqrt(d) E[y] + PE)                         sections 3.4 and 3.5
    x_n    = the n-th `TransformerDecoderLayer` of x_{n-1}   section 3.1
    logits = x_N E^T                                         section 3.4, E: the embedding's table

Code name -> paper name: `dim` -> d_model, `num_layers` -> N, `num_heads` -> h, `feed_forward_dim`
-> d_ff, `embedding` -> E. With pre-normalization the stack ends in one more normalization.
"""

from typing import Unpack

import keras
import numpy as np
from keras import activations, ops

from keras_attention import validation
from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention._key_value_cache import find_places
from keras_attention.attention.relative_position_embedding import RelativePositionEmbedding
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.decoders._aligned_layers import average_weights, select_aligned_layers
from keras_attention.decoders.base import Decoder
from keras_attention.kernels.matmul_precision import Dense
from keras_attention.transformer._base import make_normalization
from keras_attention.transformer.decoder_layer import TransformerDecoderLayer
from keras_attention.transformer.embedding import (
    MAX_LENGTH,
    TransformerEmbedding,
    serialize_shared,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoder(Decoder):
    """Predicts each next token from the earlier ones and a memory, by attention alone.

    The full call computes all positions at once, for training and rescoring. A search calls
    `prepare`, `start` and `step`, which cache the keys and values of earlier positions and
    project those of the memory once per source. Repeated calls of `step` equal the full call.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids.
        dim: Positive int, the width of embeddings and layers.
        num_layers: Positive int.
        num_heads: Positive int that divides `dim`.
        feed_forward_dim: Positive int; None is `4 * dim`.
        dropout: Float in [0, 1), the rate for embeddings and for the output of each
            sublayer.
        normalization: "post" or "pre", see `TransformerEncoderLayer`.
        positions: "sinusoidal", "learned", "rotary" or "relative": then each layer has a
            `RelativePositionEmbedding` for its keys and one for its values.
        window: Odd int, see `TransformerDecoderLayer`; None attends to all earlier positions.
        activation: Activation of the feed-forward networks.
        use_bias: Whether the attention's projections have biases.
        tie_output: Whether the logits are products with the embedding's table; otherwise they
            have their own kernel and bias.
        embedding: Optional `keras.layers.Embedding` of `vocabulary_size` and `dim`, to share
            it with an encoder over the same vocabulary; None creates one.
        alignment_layer: "last", "mean" or the index of the layer whose weights over the memory,
            averaged over the heads, are the alignment.
        max_length: Positive int, the maximum target length of learned positions, and the default
            capacity of a state if `start` gets no `max_length`.
        seed: Optional int, the seed of the dropout.
        max_distance: Positive int, the largest distance that relative positions distinguish.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[BOS, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: Accepted, as by every decoder, and ignored: nothing is recurrent.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        encoder_outputs_mask: Used if `memory_mask` is None: Keras passes the mask attached to
            `encoder_outputs` here.
        training: Whether dropout is applied.
        return_attention_scores: Whether to return the alignment as well.

    Returns:
        Logits `(batch, target, vocabulary_size)`, or the pair of them and the alignment
        `(batch, target, source)` if `return_attention_scores`. Both float32.

    Raises:
        ValueError: If an argument is out of range, `embedding` has different sizes, or the tensors
            do not fit together.

    Masking: uses the memory's mask. Padding at the end of `target_ids` needs none: no earlier
        position attends to it.

    Example:

    >>> decoder = TransformerDecoder(vocabulary_size=11, dim=8, num_layers=2, num_heads=2)
    >>> logits = decoder(keras.ops.array([[2, 5, 4]]), keras.ops.ones((1, 7, 6)))
    >>> tuple(logits.shape)
    (1, 3, 11)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.
    """

    num_heads: int
    normalization: str
    activation: ActivationFunction
    window: int | None
    use_bias: bool

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        num_layers: int,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.1,
        normalization: str = "post",
        positions: str = "sinusoidal",
        window: int | None = None,
        activation: Activation = "relu",
        use_bias: bool = False,
        tie_output: bool = True,
        embedding: keras.layers.Embedding | Config | None = None,
        alignment_layer: str | int = "last",
        max_length: int = MAX_LENGTH,
        seed: int | None = None,
        max_distance: int = 16,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = type(self).__name__
        self.dim: int = validation.check_positive_int(owner, "dim", dim)
        self.num_layers: int = validation.check_positive_int(owner, "num_layers", num_layers)
        self.feed_forward_dim = feed_forward_dim
        self.positions = positions
        self.tie_output: bool = bool(tie_output)
        self.alignment_layer: str | int = _check_alignment_layer(owner, alignment_layer, num_layers)
        every = range(num_layers)
        self._aligned_layers = [
            every[index] for index in select_aligned_layers(self.alignment_layer, every)
        ]
        self.max_length: int = validation.check_positive_int(owner, "max_length", max_length)
        self.max_distance: int = validation.check_positive_int(owner, "max_distance", max_distance)
        self.embed: TransformerEmbedding = TransformerEmbedding(
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
        self.embedding: keras.layers.Embedding | None = self.embed.embedding
        options = {
            "num_heads": num_heads,
            "feed_forward_dim": 4 * dim if feed_forward_dim is None else feed_forward_dim,
            "dropout": dropout,
            "normalization": normalization,
            "activation": activation,
            "window": window,
            "use_bias": use_bias,
        }
        self.stack: list[TransformerDecoderLayer] = [
            TransformerDecoderLayer(
                **options,
                **self._make_positions(index),
                seed=self.derive_seed(1 + 3 * index),
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(num_layers)
        ]
        first = self.stack[0]
        self.num_heads, self.normalization = first.num_heads, first.normalization
        self.activation, self.window, self.use_bias = first.activation, window, first.use_bias
        self.final_normalization: keras.layers.Layer | None = None
        if normalization == "pre":
            self.final_normalization = make_normalization(self, "final_normalization")
        self.output_dense: Dense | None = None
        if not tie_output:
            self.output_dense = Dense(vocabulary_size, dtype=self.dtype_policy, name="output")

    def _make_positions(self, index):
        """Returns the arguments of a layer that distinguish positions."""
        policy = self.dtype_policy
        if self.positions == "rotary":
            return {"rotary": RotaryEmbedding(dtype=policy, name=f"rotary_{index}")}
        names = ("relative_keys", "relative_values") if self.positions == "relative" else ()
        return {
            name: RelativePositionEmbedding(self.max_distance, dtype=policy, name=f"{name}_{index}")
            for name in names
        }

    def check_shapes(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        self.embed.check_length("target", target_ids_shape[1])

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        if not self.embed.built:
            self.embed.build(target_ids_shape)
        states_shape = (*target_ids_shape, self.dim)
        for piece in (self.final_normalization, self.output_dense):
            if piece is not None:
                piece.build(states_shape)
        for layer in self.stack:
            layer.build(states_shape, encoder_outputs_shape)

    def readout(self, states: Tensor) -> TensorLike:
        """Returns logits for states of any rank."""
        if self.final_normalization is not None:
            states = self.final_normalization(states)
        rows = reshape(states, (-1, self.dim))
        if self.tie_output:
            logits = self.embed.project(rows, is_step=len(states.shape) == 2)
        else:
            logits = self.output_dense(rows)
        return reshape(logits, (*get_shape(states)[:-1], self.vocabulary_size))

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        layers = [layer.prepare(encoder_outputs, memory_mask) for layer in self.stack]
        shared = {"mask": layers[0]["mask"]}
        return {**shared, "layers": [_drop_keys(layer, shared) for layer in layers]}

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        """Returns `layers`, a dict of each layer's keys and values, and the shared leaves
        `position`, `cache_mask` (the mask of the caches) and `ancestry`, all with leading
        dimension rows."""
        if max_length is None:
            max_length = self.max_length
        if not ops.is_tensor(max_length):  # the length may be unknown while tracing
            validation.check_positive_int("TransformerDecoder", "max_length", max_length)
            self.embed.check_length("max_length", max_length)
        parts = zip(self.stack, _split_memory(memory), strict=True)
        return _merge_layer_states([layer.start(part, max_length) for layer, part in parts])

    def get_capacity(self, state: Structure) -> int | None:
        return state["cache_mask"].shape[1]

    def reorder_cache(self, state: Structure, parents: TensorLike) -> Structure:
        if "ancestry" not in state:
            return gather_beams(state, parents)
        first = self.stack[0].reorder_cache(_split_state(state)[0], parents)
        return {**_merge_layer_states([first]), "layers": state["layers"]}

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        self._check_capacity(state)
        # Explicit, because inside another layer's call Keras would pass its `training`.
        states = self.embed(ids, state["position"], training=False)
        after, weights = [], []
        old_states = _split_state(state)
        places = find_places(old_states[0]["cache"], state["position"])
        parts = zip(self.stack, old_states, _split_memory(memory), strict=True)
        for layer, old, part in parts:
            states, new, layer_weights = layer.step(states, {**old, "places": places}, part)
            after.append(new)
            weights.append(layer_weights)
        weights = [weights[index] for index in self._aligned_layers]
        return self.readout(states), _merge_layer_states(after), _average_heads(weights)

    def _check_capacity(self, state):
        """Raises if the next step exceeds the cache; searches check symbolic positions."""
        try:
            position = np.asarray(state["position"])
        except Exception:  # every backend has its own error for a symbolic tensor
            return
        room = state["cache_mask"].shape[1]
        if position.size and position.max() >= room:
            raise ValueError(
                f"{type(self).__name__} was started with a cache for {room} steps. Pass a larger "
                f"`max_length` to `start`. Received: a step at position {position.max()}, from 0"
            )

    def decode_sequence(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure,
        memory_mask: Tensor | None,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[TensorLike, TensorLike | None, TensorDict]:
        # Padding needs no mask: it comes last, and no earlier position attends to it.
        states, weights = self.embed(target_ids, training=training), []
        for index, layer in enumerate(self.stack):
            wanted = return_attention_scores and index in self._aligned_layers
            results = layer(
                states,
                encoder_outputs,
                memory_mask=memory_mask,
                return_attention_scores=wanted,
                training=training,
            )
            states, *more = results if wanted else (results,)
            weights += more
        return (
            self.readout(states),
            _average_heads(weights) if return_attention_scores else None,
            {},
        )

    def get_config(self) -> Config:
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
            "embedding": serialize_shared(self.embedding),
            "alignment_layer": self.alignment_layer,
            "max_length": self.max_length,
            "max_distance": self.max_distance,
        }


def _split_memory(memory):
    """Returns the memory of each layer; all share one mask."""
    return [{**layer, "mask": memory["mask"]} for layer in memory["layers"]]


def _split_state(state):
    """Returns the state of each layer. Shared parts are computed once in a graph."""
    shared = _keep_keys(state, ("position", "ancestry"))
    caches = [{**layer, "mask": state["cache_mask"]} for layer in state["layers"]]
    return [{**shared, "cache": cache} for cache in caches]


def _merge_layer_states(states):
    """Returns the state of the decoder: the inverse of `_split_state`."""
    shared = _keep_keys(states[0], ("position", "ancestry"))
    caches = [state["cache"] for state in states]
    shared["cache_mask"] = caches[0]["mask"]
    return {**shared, "layers": [_drop_keys(cache, {"mask"}) for cache in caches]}


def _keep_keys(tensors, names):
    return {name: tensor for name, tensor in tensors.items() if name in names}


def _drop_keys(tensors, names):
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _average_heads(weights):
    """Returns the mean of several layers' weights over their heads, which are axis 1."""
    return average_weights([ops.mean(ops.cast(tensor, "float32"), axis=1) for tensor in weights])


def _check_alignment_layer(owner, value, num_layers):
    """Returns "last", "mean" or the index of a layer, or raises."""
    if isinstance(value, str):
        return validation.check_one_of(owner, "alignment_layer", value, ("last", "mean"))
    hint = 'Use "last", "mean" or the index of a layer.'
    validation.check_int_at_least(owner, "alignment_layer", value, -num_layers, hint)
    bound = {"low": -num_layers, "high": num_layers - 1}
    return int(
        validation.check_number_in_range(owner, "alignment_layer", value, **bound, hint=hint)
    )
