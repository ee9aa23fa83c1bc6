"""Multi-head attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2.2.

    head_i    = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    MultiHead = Concat(head_1, ..., head_h) W^O

Code name -> paper name: `num_heads` -> h, `key_dim` -> d_k, `value_dim` -> d_v, `output_dim` ->
d_model; the kernel of `query_dense` -> W_1^Q .. W_h^Q side by side, those of `key_dense` and
`value_dense` likewise, that of `output_dense` -> W^O. The paper has no biases: without them, and
with d_k = d_v = d_model / h, there are 4 d_model^2 parameters. Fewer key/value heads than query
heads: Ainslie et al. 2023 (https://arxiv.org/abs/2305.13245).
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import scorers
from keras_attention._utils import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.initializers import copy_layer, derive_initializer
from keras_attention._utils.shapes import broadcast_mask, reshape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Outputs,
    Shape,
    Size,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention._utils.validation import check_ready
from keras_attention.attention import _heads
from keras_attention.attention._heads import MultiHeadRequest
from keras_attention.attention._key_value_cache import empty_cache, write_cache
from keras_attention.attention._request import check_attention_mask
from keras_attention.attention.base import AttentionMechanism
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.kernels import blocked_dot
from keras_attention.kernels.products import Dense
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer


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

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`,
        `position_offset`; `previous_weights` has the shape of the weights. Then:
        attention_bias: Optional float tensor `(1 or batch, 1 or heads, query, key)`, without
            the query axis for a query of rank 2, added to the scores, for example relative
            positions or `alibi_bias`. It must be finite; to mask, use `attention_mask`.
        attention_mask: `(batch, query, key)`, `(query, key)`, or with an axis of heads
            `(batch, 1 or heads, query, key)`, without the query axis for a query of rank 2. Each
            axis may be 1.

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
        keys = _heads.prepare_heads(self._scorers, source["projected_key"])
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

    def attend(
        self,
        query: TensorLike,
        prepared: TensorDict,
        previous_weights: TensorLike | None = None,
        position: TensorLike | None = None,
        noise: TensorDict | None = None,
        training: bool | None = None,
        return_auxiliary_outputs: bool = False,
        attention_bias: TensorLike | None = None,
        use_causal_mask: bool = False,
        attention_mask: TensorLike | None = None,
    ) -> tuple[Structure, ...]:
        """Attends to a prepared source or a cache: one decoder step, or several queries.

        Args:
            query: Float tensor `(batch, query, query_dim)` or `(batch, query_dim)`.
            prepared: The result of `prepare` or `extend_cache`.
            previous_weights: Optional float tensor like the weights.
            position: Optional int `(batch,)`, the position of the (first) query, or
                `(batch, query)`, that of each; 0 by default.
            noise: Optional dict, the result of the method `noise` for these queries.
            training: Whether this is training. Dropout is applied only if `noise` is passed.
            return_auxiliary_outputs: Whether to return the (empty) dict of auxiliary outputs.
            attention_bias: As in the call.
            use_causal_mask: Whether a query attends only to keys up to its position. A single
                query whose position was just written needs none: later positions are masked.
            attention_mask: As in the call, over the positions of a cache.

        Returns:
            Context and weights, as the call does with `return_attention_scores=True`.
        """
        check_ready(self, query)
        noise = noise or {}
        rows, num_keys = tuple(query.shape[:-1]), prepared["mask"].shape[1]
        mask = self.check_attention_mask(rows, num_keys, attention_mask)
        attention_mask, head_mask = _heads.split_mask(mask, len(query.shape))
        if len(query.shape) == 3:  # (batch, query, heads, key)
            noise = {name: ops.swapaxes(part, 1, 2) for name, part in noise.items()}
        request = MultiHeadRequest(
            source_mask=prepared["mask"],
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            position=position,
            previous_weights=previous_weights,
            noise=noise,
            training=training,
            attention_bias=attention_bias,
            head_mask=head_mask,
        )
        return self._attend_request(query, prepared, request, return_auxiliary_outputs)

    def noise(
        self, batch: Size, num_queries: Size, num_keys: Size, training: bool | None = None
    ) -> TensorDict:
        """Samples the noise of one call: a dict of `(batch, query, heads, key)`."""
        drawn = super().noise(batch, num_queries * self.num_heads, num_keys, training)
        shape = (batch, num_queries, self.num_heads, num_keys)
        return {name: reshape(tensor, shape) for name, tensor in drawn.items()}

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        position_offset: Tensor | None = None,
        previous_weights: Tensor | None = None,
        return_auxiliary_outputs: bool = False,
        attention_bias: Tensor | None = None,
    ) -> Outputs:
        self._check_shapes(query.shape, value.shape, value.shape if key is None else key.shape)
        masks = self._query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        query_mask, attention_mask = masks
        attention_mask, head_mask = _heads.split_mask(attention_mask, len(query.shape))
        self._check_bias(query, value, attention_bias)
        self._check_previous_weights(query, value, previous_weights)
        prepared = self.prepare(value, key, value_mask, key_mask)
        unmasked = value_mask is None and key_mask is None
        request = MultiHeadRequest(
            source_mask=None if unmasked else prepared["mask"],
            query_mask=query_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            position=position_offset,
            previous_weights=previous_weights,
            training=training,
            return_attention_scores=return_attention_scores,
            has_all_queries=len(query.shape) == 3,
            attention_bias=attention_bias,
            head_mask=head_mask,
        )
        return self._attend_request(query, prepared, request, return_auxiliary_outputs)

    def _attend_request(self, query, prepared, request, return_auxiliary_outputs):
        """Attends with a query of rank 2 or 3 and returns the requested outputs."""
        step = len(query.shape) == 2
        if step:
            query, request = ops.expand_dims(query, 1), request.add_query_axis()
        query = ops.cast(query, self.compute_dtype)
        if request.query_mask is not None:
            query = ops.where(request.query_mask[:, :, None], query, 0)  # as for padded keys
        context, weights, auxiliary_outputs = self._compute_context(query, prepared, request)
        results = [ops.squeeze(context, 1) if step else context]
        if request.return_attention_scores:
            results.append(ops.squeeze(weights, 2) if step else weights)
        results += [auxiliary_outputs] if return_auxiliary_outputs else []
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def _scorers(self):
        return [self.scorer, *self.other_head_scorers]

    def _project_source(self, value, key, value_mask, key_mask, position=None):
        """Returns the projected keys and values of each head and the mask."""
        check_ready(self, value)
        mask = self._source_mask(value.shape, value_mask, key_mask)
        same = key is None or key is value
        value = ops.cast(value, self.compute_dtype)
        key = value if same else ops.cast(key, self.compute_dtype)
        if mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        else:
            # Padding may contain anything, even NaN, which a weight of 0 would not remove.
            mask = broadcast_mask(mask, value)
            value = ops.where(mask[:, :, None], value, 0)
            key = value if same else ops.where(mask[:, :, None], key, 0)
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
        queries = _heads.split_heads(
            _heads.project_positions(self.query_dense, query), self.num_heads
        )
        if self.rotary is not None:
            queries = self.rotary(queries, request.positions(num_queries))
        keys = prepared.get("key")
        if keys is None:  # a cache
            keys = _heads.prepare_heads(self._scorers, prepared["projected_key"])
        weights = None
        use_blocks = blocked_dot.can_use_blocks(self, request, queries, prepared["value"])
        if use_blocks and request.attention_bias is None and request.head_mask is None:
            contexts = blocked_dot.attend_blockwise(
                self.scorer, queries, keys, prepared["value"], request
            )
        else:
            scores = _heads.head_scores(
                self._scorers,
                queries,
                keys,
                self._num_key_value_heads,
                request.previous_weights,
                prepared["value"].shape[2],
                not request.has_all_queries,
            )
            weights = self._compute_weights(scores, request)
            contexts = _heads.head_contexts(
                self._apply_dropout(weights, request), prepared["value"]
            )
        context = _heads.project_positions(self.output_dense, _heads.join_heads(contexts))
        valid = request.find_attending_queries(num_queries, num_keys) if self.use_bias else None
        # The context of a fully masked query is 0, not the bias.
        return context if valid is None else ops.where(valid[:, :, None], context, 0), weights, {}

    def _compute_weights(self, scores, request):
        """Returns the weights for scores `(batch, heads, query, key)`, in the compute dtype."""
        if request.attention_bias is not None:
            scores = at_least_float32(scores)
            scores = scores + ops.cast(request.attention_bias, scores.dtype)
        sizes = ops.shape(scores)
        mask = request.pairs(sizes[2], sizes[3])
        if mask is not None and not isinstance(self.normalizer, SoftmaxNormalizer):
            mask = ops.broadcast_to(mask, sizes)  # normalizers expect a mask for each query
        weights = self.normalizer(
            scores,
            mask=mask,
            previous_weights=request.previous_weights,
            training=request.training,
            noise=(request.noise or {}).get("normalizer"),
        )
        return ops.cast(weights, self.compute_dtype)

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

    def _check_bias(self, query, value, attention_bias):
        shape = (query.shape[0], self.num_heads, *query.shape[1:-1], value.shape[1])
        _heads.check_bias("MultiHeadAttention", attention_bias, shape)

    def _check_previous_weights(self, query, key, previous_weights):
        if previous_weights is not None:
            shape = (query.shape[0], self.num_heads, *query.shape[1:-1], key.shape[1])
            axes = "(batch, heads, query, key)" if len(shape) == 4 else "(batch, heads, key)"
            validation.check_previous_weights("MultiHeadAttention", previous_weights, shape, axes)

    def _context_dim(self, query_shape, value_shape):
        return self.output_dim or query_shape[-1]

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        position_offset: Tensor | None = None,
        previous_weights: Tensor | None = None,
        return_auxiliary_outputs: bool = False,
        attention_bias: Tensor | None = None,
    ) -> Spec:
        self._check_bias(query, value, attention_bias)
        results = super().compute_output_spec(
            query,
            value,
            key,
            query_mask,
            value_mask,
            key_mask,
            attention_mask,
            return_attention_scores,
            use_causal_mask=use_causal_mask,
            previous_weights=previous_weights,
            return_auxiliary_outputs=return_auxiliary_outputs,
        )
        if not return_attention_scores:
            return results
        batch, *queries = tuple(query.shape)[:-1]
        shape = (batch, self.num_heads, *queries, value.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (results[0], weights, *results[2:])

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
