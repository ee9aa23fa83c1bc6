"""Multi-head attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2.2.

    head_i    = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    MultiHead = Concat(head_1, ..., head_h) W^O

Code name -> paper name: `num_heads` -> h, `key_dim` -> d_k, `value_dim` -> d_v, `output_dim` ->
d_model; the kernel of `query_dense` -> W_1^Q .. W_h^Q side by side, those of `key_dense` and
`value_dense` likewise, that of `output_dense` -> W^O. The paper has no biases: without them, and
with d_k = d_v = d_model / h, there are 4 d_model^2 parameters. Fewer key/value heads than query
heads: Ainslie et al. 2023 (https://arxiv.org/abs/2305.13245).
"""

import dataclasses
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import scorers, validation
from keras_attention._utils.initializers import copy_layer, derive_initializer
from keras_attention._utils.shapes import reshape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention import _heads
from keras_attention.attention._key_value_cache import empty_cache, write_cache
from keras_attention.attention._request import check_attention_mask
from keras_attention.attention.base import AttentionMechanism
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.kernels import blocked_dot
from keras_attention.kernels.products import Dense
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer
from keras_attention.validation import check_ready


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(AttentionMechanism):
    """Attends to a value with several heads at once, each with its own projections.

    It is the attention of the Transformer. Any scorer and normalizer can replace scaled dot
    products and softmax. A scorer without weights serves all heads. A scorer with weights is
    copied, so that each head has its own weights, and the heads are scored one after another.
    The normalizer serves all heads.

    If the weights are not requested and the layer uses softmax over (scaled) dot products, it
    computes long sequences of known length block by block. Then it never stores all scores, and
    there is no second derivative under XLA.

    Args:
        num_heads: Positive int.
        key_dim: Positive int, the width of a head's queries and keys.
        value_dim: Positive int, the width of a head's values; None is `key_dim`.
        num_key_value_heads: Positive int that divides `num_heads`, the number of key and value
            heads; groups of query heads share them. None is `num_heads`.
        scorer: A `Scorer` or its name, see `Attention`.
        normalizer: A `Normalizer` or its name.
        output_dim: Positive int, the width of the context; None is the width of the query.
        use_bias: Whether the four projections have biases.
        rotary: Optional `RotaryEmbedding`, which rotates queries and keys by their positions:
            0, 1, 2, ... for keys, `position_offset` and following for queries.
        kernel_initializer: Initializer of the kernels, each `(input_dim, heads * dim)`.
        bias_initializer: Initializer of the biases.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`, of which three may have an
        axis of heads:
        previous_weights: Float tensor `(batch, heads, query, key)`, like the weights.
        attention_bias: Optional float tensor `(1 or batch, 1 or heads, query, key)`, for example
            relative positions or `alibi_bias`.
        attention_mask: Boolean `(batch, query, key)`, `(query, key)` or
            `(batch, 1 or heads, query, key)`. Each axis may be 1.

    Returns:
        The context `(batch, query, output_dim)`, or the pair of context and weights
        `(batch, heads, query, key)` if `return_attention_scores`. For a query of rank 2 the
        query axis is missing in both.

    Raises:
        ValueError: If a size is not a positive int, `num_key_value_heads` does not divide
            `num_heads`, a scorer or normalizer is unknown, or the tensors do not fit together.

    Cache: a decoder that produces one position after another keeps `start_cache(rows, length)`,
        adds each new position with `extend_cache` and attends to the cache with `attend`.

    Example:

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=3)
    >>> states = keras.ops.ones((2, 5, 6))
    >>> context, weights = attention(states, states, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 5, 6), (2, 2, 5, 5))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.2.
    """

    num_heads: int
    key_dim: int
    value_dim: int | None
    num_key_value_heads: int | None
    output_dim: int | None

    has_heads = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        num_key_value_heads: int | None = None,
        scorer: str | Scorer | Config = "scaled_dot",
        normalizer: str | Normalizer | Config = "softmax",
        output_dim: int | None = None,
        use_bias: bool = False,
        rotary: RotaryEmbedding | Config | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.autocast = False  # adds a bias in float32 instead of rounding it
        sizes = {"num_heads": num_heads, "key_dim": key_dim, "value_dim": value_dim}
        sizes |= {"num_key_value_heads": num_key_value_heads, "output_dim": output_dim}
        for name, size in sizes.items():
            if size is not None or name in ("num_heads", "key_dim"):
                validation.check_positive_int("MultiHeadAttention", name, size)
            setattr(self, name, size)
        self._value_dim, self._num_key_value_heads = (
            value_dim or key_dim,
            num_key_value_heads or num_heads,
        )
        if num_heads % self._num_key_value_heads:
            raise ValueError(
                "MultiHeadAttention expects `num_key_value_heads` to divide `num_heads`: each "
                "serves the same number of query heads. Received: num_heads="
                f"{num_heads}, num_key_value_heads={num_key_value_heads}"
            )
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)
        self.other_head_scorers: list[Scorer] = []
        self.use_bias: bool = bool(use_bias)
        self._built_dims = None
        self.rotary: RotaryEmbedding | None = _rotary_from(rotary, key_dim)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        key_shape = key_shape or value_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        widths = {"query": query_shape[-1], "key": key_shape[-1], "value": value_shape[-1]}
        units = {
            "query": self.num_heads * self.key_dim,
            "key": self._num_key_value_heads * self.key_dim,
            "value": self._num_key_value_heads * self._value_dim,
            "output": self.output_dim or query_shape[-1],
        }
        input_dims = {**widths, "output": self.num_heads * self._value_dim}
        for index, name in enumerate(units):
            dense = Dense(
                units[name],
                use_bias=self.use_bias,
                kernel_initializer=derive_initializer(self.kernel_initializer, index),
                bias_initializer=derive_initializer(self.bias_initializer, index),
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build((None, input_dims[name]))
            setattr(self, f"{name}_dense", dense)
        self._build_pieces()
        self._built_dims = widths
        self.built = True

    def _build_pieces(self):
        rows = (None, None, self.key_dim)
        if not self.scorer.built:
            self.scorer.build(rows, rows)
        if self.scorer.weights:
            self.other_head_scorers = [
                copy_layer(self.scorer, head) for head in range(1, self.num_heads)
            ]
            for scorer in self.other_head_scorers:
                scorer.build(rows, rows)
        if not self.normalizer.built:
            self.normalizer.build((None, self.num_heads, None, None))

    def prepare(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the part that depends on the source alone, to be passed to `attend`.

        Returns:
            A dict with `key` (the scorer's prepared keys of each head), `value`
            `(batch, key_value_heads, key, value_dim)` and `mask`, boolean `(batch, key)`.
        """
        source = self._project_source(value, key, value_mask, key_mask)
        keys = _heads.prepare_heads(self.scorers, source["projected_key"])
        return {"key": keys, "value": source["value"], "mask": source["mask"]}

    def start_cache(self, rows: Size, max_length: int) -> TensorDict:
        """Returns an empty cache for `rows` sequences of up to `max_length` positions.

        Returns:
            A dict with `projected_key` `(rows, key_value_heads, max_length, key_dim)`, the keys,
            `value` `(rows, key_value_heads, max_length, value_dim)` and `mask`, boolean
            `(rows, max_length)`, True at written positions. To reorder beams, gather the rows of
            all three.
        """
        if not self.built:
            check_ready(self, rows)
        sizes = {"projected_key": (self._num_key_value_heads, self.key_dim)}
        sizes["value"] = (self._num_key_value_heads, self._value_dim)
        return empty_cache(rows, max_length, sizes, self.compute_dtype)

    def extend_cache(
        self,
        cache: TensorDict,
        value: TensorLike,
        position: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the cache with the keys and values of new positions added.

        Args:
            cache: The result of `start_cache` or of this method.
            value: Float tensor `(rows, new, dim)`, or `(rows, dim)` for one new position.
            position: Int `(rows,)`, the (first) new position of each sequence. Positions from
                `max_length` on are not written.
            key: Float tensor like `value`; `value` by default.
            value_mask: Optional boolean `(rows, new)` or `(rows,)`. Positions with False are
                written as masked.
            key_mask: The same, combined with `value_mask`.
        """
        if len(value.shape) == 2:
            tensors = (value, key, value_mask, key_mask)
            value, key, value_mask, key_mask = map(_heads.expand_axis, tensors)
        new = self._project_source(value, key, value_mask, key_mask, position)
        return write_cache(cache, new, position)

    def noise(
        self, batch: Size, num_queries: Size, num_keys: Size, training: bool | None = None
    ) -> TensorDict:
        """Samples the noise of one call: a dict of `(batch, query, heads, key)`."""
        drawn = super().noise(batch, num_queries * self.num_heads, num_keys, training)
        shape = (batch, num_queries, self.num_heads, num_keys)
        return {name: reshape(tensor, shape) for name, tensor in drawn.items()}

    @property
    def scorers(self) -> list[Scorer]:
        """One scorer for all heads, or one for each."""
        return [self.scorer, *self.other_head_scorers]

    def _project_source(self, value, key, value_mask, key_mask, position=None):
        """Returns the projected keys and values of each head and the mask."""
        value, key, mask = self._mask_source(value, key, value_mask, key_mask)
        keys = _heads.split_heads(
            _heads.project_positions(self.key_dense, key), self._num_key_value_heads
        )
        if self.rotary is not None:
            keys = self.rotary(keys, position)
        values = _heads.split_heads(
            _heads.project_positions(self.value_dense, value), self._num_key_value_heads
        )
        return {"projected_key": keys, "value": values, "mask": mask}

    def _compute_context(self, query, prepared, request):
        """Returns the projected contexts of all heads, the weights (or None) and an empty dict."""
        num_queries, num_keys = ops.shape(query)[1], ops.shape(prepared["mask"])[1]
        queries = self.project_query(query, request.positions(num_queries))
        keys = prepared.get("key")
        if keys is None:  # a cache
            keys = _heads.prepare_heads(self.scorers, prepared["projected_key"])
        value, weights = prepared["value"], None
        if blocked_dot.can_use_blocks(self, request, queries, value):
            contexts = blocked_dot.attend_blockwise(self.scorer, queries, keys, value, request)
        else:
            scores, previous_weights = [], request.previous_weights
            parts = _heads.split_scoring(self.scorers, queries, keys, value, previous_weights)
            for scorer, query_part, key_part, previous_part in parts:
                score = scorer.score if request.has_all_queries else scorer.score_step
                scores.append(score(query_part, key_part, previous_part))
                scorer.check_scores(scores[-1], query_part, value.shape[2])
            scores = _heads.merge_scores(scores, queries)
            if request.attention_bias is not None:
                scores = request.add_bias(scores)
            if request.noise:  # (batch, query, heads, key)
                noise = {name: ops.swapaxes(one, 1, 2) for name, one in request.noise.items()}
                request = dataclasses.replace(request, noise=noise)
            weights = self.compute_weights(scores, request)
            contexts = _heads.compute_contexts(self._apply_dropout(weights, request), value)
        context = _heads.project_positions(self.output_dense, _heads.join_heads(contexts))
        valid = request.find_attending_queries(num_queries, num_keys) if self.use_bias else None
        # The context of a fully masked query is 0, not the bias.
        return context if valid is None else ops.where(valid[:, :, None], context, 0), weights, {}

    def project_query(self, query: TensorLike, positions: TensorLike) -> Tensor:
        """Returns the queries of each head, `(batch, heads, query, key_dim)`."""
        queries = _heads.project_positions(self.query_dense, query)
        queries = _heads.split_heads(queries, self.num_heads)
        return queries if self.rotary is None else self.rotary(queries, positions)

    def _score_mask(self, scores, request):
        """Returns the combined mask, which broadcasts to the scores, or None."""
        sizes = ops.shape(scores)
        mask = request.mask(sizes[2], sizes[3])
        if mask is not None and not request.has_head_masks:
            mask = mask[:, None]
        if mask is None or isinstance(self.normalizer, SoftmaxNormalizer):
            return mask
        return ops.broadcast_to(mask, sizes)  # normalizers expect a mask for each query

    def _check_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "key": key_shape, "value": value_shape}
        _heads.check_shapes("MultiHeadAttention", shapes, self._built_dims)
        rows = (None, None, self.key_dim)
        self.scorer.check_shapes(rows, rows)

    def check_attention_mask(
        self, rows: Shape, num_keys: int | None, mask: TensorLike | None
    ) -> Tensor | None:
        """Returns the checked `attention_mask`, boolean; it may have an axis of heads."""
        return check_attention_mask("MultiHeadAttention", rows, num_keys, mask, self.num_heads)

    def _weights_shape(self, query_shape, num_keys):
        batch, *queries = tuple(query_shape)[:-1]
        return (batch, self.num_heads, *queries, num_keys)

    def _check_previous_weights(self, query, key, previous_weights):
        if previous_weights is not None:
            shape = self._weights_shape(query.shape, key.shape[1])
            axes = "(batch, heads, query, key)" if len(shape) == 4 else "(batch, heads, key)"
            validation.check_previous_weights("MultiHeadAttention", previous_weights, shape, axes)

    def _context_dim(self, query_shape, value_shape):
        return self.output_dim or query_shape[-1]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "output_dim": self.output_dim,
            "use_bias": self.use_bias,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            **self.get_pieces_config(),
        }


def _rotary_from(rotary, key_dim):
    """Returns the `RotaryEmbedding` that an object or its config stands for, or None."""
    if isinstance(rotary, dict):
        rotary = keras.saving.deserialize_keras_object(rotary)
    if rotary is None:
        return None
    if not isinstance(rotary, RotaryEmbedding):
        raise ValueError(
            "MultiHeadAttention expects `rotary` to be a `RotaryEmbedding` object or None. "
            f"Received: rotary={rotary!r}"
        )
    rotary.check_width("key_dim", key_dim)
    return rotary
