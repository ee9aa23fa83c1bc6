"""Multi-head attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2.2.

    head_i    = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    MultiHead = Concat(head_1, ..., head_h) W^O

Code name -> paper name: `num_heads` -> h, `key_dim` -> d_k, `value_dim` -> d_v, `output_dim` ->
d_model; the kernels of `query_dense`, `key_dense`, `value_dense` -> W_1 .. W_h side by side, that
of `output_dense` -> W^O. The paper has no biases. Fewer key/value heads than query heads: Ainslie
et al. 2023 (https://arxiv.org/abs/2305.13245).
"""

import dataclasses
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import scorers, validation
from keras_attention._utils.initializers import copy_layer
from keras_attention._utils.registry import resolve_optional_piece
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    TensorDict,
    TensorLike,
)
from keras_attention.attention import _heads
from keras_attention.attention._head_projections import HeadProjectionsMixin
from keras_attention.attention._key_value_cache import KeyValueCacheMixin
from keras_attention.attention._request import combine_masks
from keras_attention.attention.base import AttentionMechanism
from keras_attention.attention.relative_position_embedding import RelativePositionEmbedding
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.kernels import blocked_dot
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(HeadProjectionsMixin, KeyValueCacheMixin, AttentionMechanism):
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
        relative_keys: Optional `RelativePositionEmbedding`, whose vectors are added to the keys of
            all heads, for (scaled) dot products. Positions are counted as for `rotary`.
        relative_values: Optional `RelativePositionEmbedding`, whose vectors are added to the
            values. With either of the two the layer always stores all scores.

    Call arguments: those of `AttentionMechanism`. `previous_weights`, `attention_bias` and
        `attention_mask` may have an axis of heads after the batch axis:
        previous_weights: Float tensor `(batch, heads, query, key)`, like the weights.
        attention_bias: Float tensor `(1 or batch, 1 or heads, query, key)`, as of `alibi_bias` or
            `RelativePositionBias`.
        attention_mask: Boolean `(batch, query, key)`, `(query, key)` or
            `(batch, 1 or heads, query, key)`. Each axis may be 1.

    Returns:
        The context `(batch, query, output_dim)` and, if requested, the weights
        `(batch, heads, query, key)`. For a query of rank 2 the query axis is missing in both.

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
        relative_keys: RelativePositionEmbedding | Config | None = None,
        relative_values: RelativePositionEmbedding | Config | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        sizes = {"num_heads": num_heads, "key_dim": key_dim, "value_dim": value_dim}
        sizes |= {"num_key_value_heads": num_key_value_heads, "output_dim": output_dim}
        for name, size in sizes.items():
            if size is not None or name in ("num_heads", "key_dim"):
                validation.check_positive_int("MultiHeadAttention", name, size)
            setattr(self, name, size)
        if num_heads % (num_key_value_heads or num_heads):
            raise ValueError(
                "MultiHeadAttention expects `num_key_value_heads` to divide `num_heads`: each "
                "serves the same number of query heads. Received: num_heads="
                f"{num_heads}, num_key_value_heads={num_key_value_heads}"
            )
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)
        self.other_head_scorers: list[Scorer] = []
        self.use_bias: bool = bool(use_bias)
        self._built_dims = None
        self.rotary: RotaryEmbedding | None = resolve_optional_piece(
            "MultiHeadAttention", "rotary", RotaryEmbedding, rotary
        )
        if self.rotary is not None:
            self.rotary.check_width("key_dim", key_dim)
        self.relative_keys: RelativePositionEmbedding | None = resolve_optional_piece(
            "MultiHeadAttention", "relative_keys", RelativePositionEmbedding, relative_keys
        )
        self.relative_values: RelativePositionEmbedding | None = resolve_optional_piece(
            "MultiHeadAttention", "relative_values", RelativePositionEmbedding, relative_values
        )
        self._check_relative_keys()
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)

    def _check_relative_keys(self):
        if self.relative_keys is None:
            return
        if type(self.scorer) not in (scorers.DotScorer, scorers.ScaledDotScorer):
            raise ValueError(
                "MultiHeadAttention adds `relative_keys` to keys compared by dot products. "
                'Use the scorer "dot" or "scaled_dot". '
                f"Received: scorer={type(self.scorer).__name__}"
            )
        if self.rotary is not None:
            raise ValueError(
                "MultiHeadAttention compares queries with `relative_keys`, which would depend on "
                "absolute positions if `rotary` rotated the queries. Pass one of the two. "
                f"Received: relative_keys={self.relative_keys!r}, rotary={self.rotary!r}"
            )

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape or value_shape}
        self._check_shapes(*shapes.values())
        dims = {name: shape[-1] for name, shape in shapes.items()}
        self.build_projections(**dims)
        rows = (None, None, self.key_dim)
        if not self.scorer.built:
            self.scorer.build(rows, rows)
        if self.scorer.weights:
            heads = range(1, self.num_heads)
            self.other_head_scorers = [copy_layer(self.scorer, head) for head in heads]
            for scorer in self.other_head_scorers:
                scorer.build(rows, rows)
        if not self.normalizer.built:
            self.normalizer.build((None, self.num_heads, None, None))
        self._built_dims, self.built = dims, True

    def prepare(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns `key`, what the scorers prepare for each head, `value` and `mask` for `attend`.

        The values are `(batch, key_value_heads, key, value_dim)`, the mask is `(batch, key)`.
        """
        source = self.project_source(value, key, value_mask, key_mask)
        keys = _heads.prepare_heads(self.scorers, source["projected_key"])
        return {"key": keys, "value": source["value"], "mask": source["mask"]}

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

    def _compute_context(self, query, prepared, request):
        """Returns the projected contexts of all heads, the weights (or None) and an empty dict."""
        num_queries, num_keys = get_shape(query)[1], get_shape(prepared["mask"])[1]
        valid = self.scorer.valid_keys(num_keys)
        if valid is not None:
            source_mask = combine_masks(request.source_mask, valid[None])
            request = dataclasses.replace(request, source_mask=source_mask)
        positions, pieces = None, (self.rotary, self.relative_keys, self.relative_values)
        if any(piece is not None for piece in pieces):
            positions = request.positions(num_queries)
        queries = self.project_query(query, positions)
        value, keys, weights = prepared["value"], prepared.get("key"), None
        if keys is None:  # a cache
            keys = _heads.prepare_heads(self.scorers, prepared["projected_key"])
        if not self.uses_distances and blocked_dot.can_skip_stored_scores(
            self, request, queries, value
        ):
            contexts = blocked_dot.attend_without_stored_scores(
                self.scorer, queries, keys, value, request
            )
        else:
            scores, previous_weights = [], request.previous_weights
            parts = _heads.make_scorer_arguments(
                self.scorers, queries, keys, value, previous_weights
            )
            for scorer, query_part, key_part, previous_part in parts:
                score = scorer.score if request.has_all_queries else scorer.score_step
                scores.append(score(query_part, key_part, previous_part))
                scorer.check_scores(scores[-1], query_part, value.shape[2])
            scores = _heads.merge_scores(scores, queries)
            scores = self.add_relative_keys(scores, queries, positions)
            if request.attention_bias is not None:
                scores = request.add_bias(scores)
            if request.noise:  # (batch, query, heads, key)
                noise = {name: ops.swapaxes(one, 1, 2) for name, one in request.noise.items()}
                request = dataclasses.replace(request, noise=noise)
            weights = self.compute_weights(scores, request)
            dropped = self._apply_dropout(weights, request)
            contexts = _heads.compute_contexts(dropped, value)
            contexts = self.add_relative_values(contexts, dropped, positions)
        context = self.project_contexts(contexts)
        valid = request.find_attending_queries(num_queries, num_keys) if self.use_bias else None
        # The context of a fully masked query is 0, not the bias.
        return context if valid is None else ops.where(valid[:, :, None], context, 0), weights, {}

    def _score_mask(self, scores, request):
        """Returns the combined mask, which broadcasts to the scores, or None."""
        mask = request.mask(*get_shape(scores)[2:])
        if mask is not None and not request.has_head_masks:
            mask = mask[:, None]
        if mask is None or isinstance(self.normalizer, SoftmaxNormalizer):
            return mask
        return ops.broadcast_to(mask, get_shape(scores))  # normalizers expect a mask for each query

    def _check_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "key": key_shape, "value": value_shape}
        _heads.check_shapes("MultiHeadAttention", shapes, self._built_dims)
        self.scorer.check_shapes(*[(None, None, self.key_dim)] * 2)

    def _context_dim(self, query_shape, _):
        return self.output_dim or query_shape[-1]

    def get_config(self) -> Config:
        sizes = ("num_heads", "key_dim", "value_dim", "num_key_value_heads", "output_dim")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in sizes},
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "use_bias": self.use_bias,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            **self.get_pieces_config(),
            "relative_keys": keras.saving.serialize_keras_object(self.relative_keys),
            "relative_values": keras.saving.serialize_keras_object(self.relative_values),
        }
