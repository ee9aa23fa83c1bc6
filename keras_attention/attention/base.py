"""Attention in three stages: scores, weights, context.

scores  = scorer(query, key)
weights = normalizer(scores, mask)
context = sum over keys of weights * value
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
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
from keras_attention.attention._request import (
    AttentionRequest,
    check_attention_bias,
    check_attention_mask,
    combine_masks,
)
from keras_attention.core.counter_dropout import dropout_noise
from keras_attention.kernels import blocked_dot
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer
from keras_attention.validation import check_ready


class AttentionMechanism(Layer):
    """Computes contexts by comparing queries with keys; the base of all attention layers.

    It combines a scorer and a normalizer with a weighted sum. A subclass chooses them and sets
    `self.scorer`. Layers are stateless: pass the memory on each call. `call` runs all stages;
    `prepare` and `attend` split the same work for decoders that attend to one source at many
    steps.

    Call arguments:
        query: Float tensor `(batch, query, query_dim)`, or `(batch, query_dim)` for one
            decoder step.
        value: Float tensor `(batch, key, value_dim)`, the vectors that are averaged.
        key: Float tensor `(batch, key, key_dim)`, the vectors that are compared; `value` by
            default.
        query_mask: Boolean `(batch, query)`, or `(batch,)` for a query of rank 2. A query with
            False gets zero weights and a zero context.
        value_mask: Boolean `(batch, key)`, True at positions that may be attended to.
        key_mask: Boolean `(batch, key)`, combined with `value_mask`.
        attention_mask: Boolean `(batch, query, key)`, or `(query, key)` for all batch elements;
            `(batch, key)` for a query of rank 2.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Whether dropout is applied.
        use_causal_mask: Whether query i attends only to keys 0 to i.
        position_offset: Int `(batch,)`, the position of the first query among the keys,
            for causal attention with a cache; 0 by default.
        previous_weights: Float tensor like the weights, for scorers and normalizers that use it.
        return_auxiliary_outputs: Whether to return the mechanism's further results as well: a
            dict of float32 tensors `(batch, query)`, with the names in `auxiliary_outputs`.
        attention_bias: Optional float tensor `(1 or batch, query, key)`, without the query axis
            for a query of rank 2, added to the scores in float32. It must be finite; to mask, use
            `attention_mask`.

    Returns:
        The context `(batch, query, value_dim)`, followed by the requested outputs: the weights
        `(batch, query, key)`, taken before dropout, and the auxiliary outputs. For a query of
        rank 2 the query axis is missing in all of them.

    Masking: uses the masks of query, value and key; propagates the query's. An integer mask is
        converted as in Keras: 0 is masked.
    """

    scorer: Scorer
    normalizer: Normalizer
    dropout: float
    seed: int | None
    seed_generator: keras.random.SeedGenerator

    #: Names of the outputs besides context and weights.
    auxiliary_outputs: tuple[str, ...] = ()
    #: The number of heads, an axis of the weights between batch and query; None has no such axis.
    num_heads: int | None = None

    def __init__(
        self,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.autocast = False  # a bias is added in float32; the other tensors are cast below
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.dropout = validation.check_number_in_range(
            owner, "dropout", dropout, 0, 1, exclude_high=True
        )
        self.seed = seed
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        key_shape = key_shape or value_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        if not self.scorer.built:
            self.scorer.build(query_shape, key_shape)
        if not self.normalizer.built:
            self.normalizer.build((*tuple(query_shape)[:-1], tuple(key_shape)[1]))
        self.built = True

    @property
    def reads_weights(self) -> str | None:
        """The earlier weights in use: None, "previous" or "accumulated"."""
        if self.normalizer.reads_weights and self.scorer.reads_weights == "accumulated":
            raise ValueError(
                f"{type(self).__name__} passes a single tensor of earlier weights, but its scorer "
                "needs their sum and its normalizer those of the last step. Combine each of them "
                f"with a different one. Received: scorer={type(self.scorer).__name__}, "
                f"normalizer={type(self.normalizer).__name__}"
            )
        return "previous" if self.normalizer.reads_weights else self.scorer.reads_weights

    def initial_weights(self, batch: Size, num_keys: Size) -> TensorLike:
        """Returns the previous weights of the first step, `(batch, key)`."""
        owner = self.normalizer if self.normalizer.reads_weights else self.scorer
        return owner.initial_weights(batch, num_keys)

    def state_sizes(self, num_keys: Size | None) -> dict[str, Size | None]:
        """Returns the names and sizes of the state that steps carry, besides earlier weights.

        Most mechanisms have none. Where one is passed, `_compute_context` returns the new state
        beside the auxiliary outputs; `num_keys` is None if it is unknown.
        """
        return {}

    def initial_state(self, batch: Size, num_keys: Size) -> TensorDict:
        """Returns the state before the first step: tensors `(batch, size)`, at least float32."""
        dtype = wide_dtype(self.compute_dtype)
        sizes = self.state_sizes(num_keys)
        return {name: ops.zeros((batch, size), dtype) for name, size in sizes.items()}

    def prepare(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the part that depends on the source alone, to be passed to `attend`.

        Masks are explicit here: a plain method does not receive those attached to tensors.

        Returns:
            A dict with `key` (the scorer's prepared key), `value`
            `(batch, key, value_dim)` in the compute dtype and `mask`, boolean
            `(batch, key)`.
        """
        value, key, mask = self._mask_source(value, key, value_mask, key_mask)
        return {"key": self.scorer.prepare(key), "value": value, "mask": mask}

    def _mask_source(self, value, key, value_mask, key_mask):
        """Returns value and key in the compute dtype with 0 at padding, and the mask."""
        check_ready(self, value)
        mask = self._source_mask(value, value_mask, key_mask)
        same = key is None or key is value
        value = ops.cast(value, self.compute_dtype)
        key = value if same else ops.cast(key, self.compute_dtype)
        if mask is None:
            return value, key, ops.ones(get_shape(value)[:2], dtype="bool")
        # Padding may contain anything, even NaN, which a weight of 0 would not remove.
        value = ops.where(mask[:, :, None], value, 0)
        return value, value if same else ops.where(mask[:, :, None], key, 0), mask

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
        state: TensorDict | None = None,
        return_state: bool = False,
        has_all_queries: bool = False,
    ) -> tuple[Structure, ...]:
        """Attends to a prepared source: one decoder step, or several queries at once.

        Args:
            query: Float tensor `(batch, query, query_dim)` or `(batch, query_dim)`.
            prepared: The result of `prepare`.
            previous_weights: Optional float tensor like the weights.
            position: Optional int tensor `(batch,)`, the step of the (first) query, or
                `(batch, query)`, that of each, for mechanisms that use positions.
            noise: Optional dict, the result of the method `noise` for these queries.
            training: Whether this is training. Dropout is applied only if `noise` is passed.
            return_auxiliary_outputs: Whether to return the auxiliary outputs as well.
            attention_bias: As in the call.
            use_causal_mask: Whether a query attends only to keys up to its position.
            attention_mask: As in the call.
            state: Dict of float tensors `(batch, query, size)`, without the query axis for a query
                of rank 2: the state of each query's step, see `initial_state`. None if the
                mechanism has none, or all queries are steps in time, from the first on.
            return_state: Whether to return the new state as well.
            has_all_queries: Whether these are the queries of all steps, which may be so many that
                the scores are better computed block by block.

        Returns:
            Context and weights, as `call` does with `return_attention_scores=True`, and the
            dict of auxiliary outputs and the dict of the new state if requested.
        """
        check_ready(self, query)
        num_keys = prepared["mask"].shape[1]
        self._check_bias(query, num_keys, attention_bias)
        mask = self.check_attention_mask(tuple(query.shape[:-1]), num_keys, attention_mask)
        request = AttentionRequest(
            source_mask=prepared["mask"],
            attention_mask=mask,
            attention_bias=attention_bias,
            use_causal_mask=use_causal_mask,
            position=position,
            previous_weights=previous_weights,
            state=state or None,
            noise=noise or {},
            training=training,
            has_all_queries=has_all_queries,
        )
        rows, request = self._expand_step(query, request)
        context, weights, others = self._compute_context(rows, prepared, request)
        new_state = {name: others.pop(name) for name in state or {}}
        results = select_outputs(
            context, (True, weights), (return_auxiliary_outputs, others), (return_state, new_state)
        )
        return _squeeze_step(results) if len(query.shape) == 2 else results

    def noise(
        self, batch: Size, num_queries: Size, num_keys: Size, training: bool | None = None
    ) -> TensorDict:
        """Samples the noise for these sizes, so that loops can sample it beforehand.

        Returns:
            A dict of float tensors `(batch, num_queries, ...)`; empty if nothing is random.
        """
        shape = (batch, num_queries, num_keys)
        drawn = {"normalizer": self.normalizer.noise(shape, training)}
        if training and self.dropout > 0:
            drawn["dropout"] = dropout_noise(
                shape, self.dropout, self.seed_generator, self.compute_dtype
            )
        return {name: tensor for name, tensor in drawn.items() if tensor is not None}

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
        self._check_bias(query, value.shape[1], attention_bias)
        self._check_previous_weights(query, value if key is None else key, previous_weights)
        if previous_weights is not None:
            previous_weights = ops.cast(previous_weights, self.compute_dtype)
        prepared = self.prepare(value, key, value_mask, key_mask)
        unmasked = value_mask is None and key_mask is None
        request = AttentionRequest(
            source_mask=None if unmasked else prepared["mask"],
            query_mask=query_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            use_causal_mask=use_causal_mask,
            position=position_offset,
            previous_weights=previous_weights,
            training=training,
            return_attention_scores=return_attention_scores,
            is_layer_call=True,
            has_all_queries=len(query.shape) == 3,
        )
        rows, request = self._expand_step(query, request)
        if request.query_mask is not None:
            rows = ops.where(request.query_mask[:, :, None], rows, 0)  # as `prepare` does for keys
        context, weights, auxiliary_outputs = self._compute_context(rows, prepared, request)
        results = select_outputs(
            context,
            (return_attention_scores, weights),
            (return_auxiliary_outputs, auxiliary_outputs),
        )
        return _squeeze_step(results) if len(query.shape) == 2 else results

    def _expand_step(self, query, request):
        """Returns the query in the compute dtype, and the request, both with a query axis."""
        query = ops.cast(query, self.compute_dtype)
        if len(query.shape) == 3:
            return query, request
        return ops.expand_dims(query, 1), request.add_query_axis()

    def _compute_context(self, query, prepared, request):
        """Runs the three stages for a query of rank 3.

        Returns the context, the weights and the dict of auxiliary outputs and, if the request has
        a state, of the new state. The weights are None if they were not requested and would be too
        large to store.
        """
        if blocked_dot.can_skip_stored_scores(self, request, query, prepared["value"]):
            tensors = query, prepared["key"], prepared["value"]
            context = blocked_dot.attend_without_stored_scores(self.scorer, *tensors, request)
            return context, None, {}
        # A step has few queries, but their number may be unknown while tracing.
        score = self.scorer.score if request.has_all_queries else self.scorer.score_step
        scores = score(query, prepared["key"], request.previous_weights)
        self.scorer.check_scores(scores, query, prepared["value"].shape[1])
        if request.attention_bias is not None:
            scores = request.add_bias(scores)
        return self._read_scores(scores, query, prepared["value"], request)

    def _read_scores(self, scores, query, value, request):
        """Returns what `_compute_context` does, for scores `(batch, query, key)`."""
        weights = self.compute_weights(scores, request)
        return ops.matmul(self._apply_dropout(weights, request), value), weights, {}

    def _score_mask(self, scores, request):
        """Returns the combined mask in the shape of the scores, or None."""
        sizes = get_shape(scores)
        mask = combine_masks(request.mask(sizes[1], sizes[2]), self.scorer.valid_keys(sizes[2]))
        # Broadcast to all queries, because normalizers expect a mask for each of them.
        return None if mask is None else ops.broadcast_to(mask, sizes)

    def compute_weights(self, scores: TensorLike, request: AttentionRequest) -> Tensor:
        """Returns the weights for scores `(batch, query, key)`, in the compute dtype."""
        weights = self.normalizer(
            scores,
            mask=self._score_mask(scores, request),
            previous_weights=request.previous_weights,
            training=request.training,
            noise=(request.noise or {}).get("normalizer"),
        )
        return ops.cast(weights, self.compute_dtype)

    def _apply_dropout(self, weights, request):
        """Returns the weights after dropout; the caller returns those before it."""
        if request.noise is not None:
            noise = request.noise.get("dropout")
        elif request.training and self.dropout > 0:
            shape = get_shape(weights)
            noise = dropout_noise(shape, self.dropout, self.seed_generator, weights.dtype)
        else:
            noise = None
        return weights if noise is None else weights * ops.cast(noise, weights.dtype)

    def _check_shapes(self, query_shape, value_shape, key_shape):
        owner = type(self).__name__
        validation.check_axes(owner, "value", value_shape, "(batch, key, value_dim)")
        self.scorer.check_shapes(query_shape, key_shape)
        hint = "Each key belongs to one value."
        validation.check_same_size(owner, 1, hint, value=value_shape, key=key_shape)
        validation.check_same_size(owner, 0, query=query_shape, value=value_shape)

    def _source_mask(self, value, value_mask, key_mask):
        """Returns the combined masks of the source, boolean `(batch, key)`, or None."""
        owner = type(self).__name__
        return combine_masks(
            validation.fit_mask(owner, "value_mask", value_mask, value, "(batch, key)"),
            validation.fit_mask(owner, "key_mask", key_mask, value, "(batch, key)"),
        )

    def check_attention_mask(
        self, rows: Shape, num_keys: int | None, mask: TensorLike | None
    ) -> Tensor | None:
        """Returns the checked `attention_mask`, boolean, or None.

        Args:
            rows: The shape of the query without its last axis.
            num_keys: Int, or None if unknown.
            mask: The mask, or None. One of rank 2 is `(query, key)`, unless the query is of rank 2
                itself.

        Returns:
            `(1 or batch, 1 or query, 1 or key)`, without the query axis for a query of rank 2. It
            may have an axis of heads after the batch axis if the weights have one.
        """
        return check_attention_mask(type(self).__name__, rows, num_keys, mask, self.num_heads)

    def _query_masks(self, query, value, query_mask, attention_mask, use_causal_mask):
        """Returns the masks of queries and of pairs as booleans, after checking the arguments."""
        owner = type(self).__name__
        rows = tuple(query.shape[:-1])
        axes = "(batch, query)" if len(rows) == 2 else "(batch,)"
        query_mask = validation.fit_mask(owner, "query_mask", query_mask, query, axes)
        if use_causal_mask and len(rows) == 1:
            raise ValueError(
                f"{owner} needs a query axis to mask causally. Expand the query to (batch, 1, "
                "query_dim) and pass its position as `position_offset`. "
                f"Received: query.shape={tuple(query.shape)}, use_causal_mask=True"
            )
        return query_mask, self.check_attention_mask(rows, value.shape[1], attention_mask)

    def _check_bias(self, query, num_keys, attention_bias):
        axes = ", ".join(("1 or batch", *self._weights_axes(query.shape, "1 or heads"), "key"))
        shape = self._weights_shape(query.shape, num_keys)
        check_attention_bias(type(self).__name__, attention_bias, shape, f"({axes})")

    def _check_previous_weights(self, query, key, previous_weights):
        if previous_weights is not None and (self.num_heads or self.normalizer.reads_weights):
            axes = ", ".join(("batch", *self._weights_axes(query.shape, "heads"), "key"))
            shape = self._weights_shape(query.shape, key.shape[1])
            owner = type(self).__name__
            validation.check_previous_weights(owner, previous_weights, shape, f"({axes})")
        if not self.num_heads:
            self.scorer.check_previous_weights(query.shape, key.shape, previous_weights)

    def _weights_axes(self, query_shape, heads):
        """Returns the names of the axes of the weights between batch and key."""
        return [heads] * bool(self.num_heads) + ["query"] * (len(query_shape) - 2)

    def compute_mask(self, query: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> OutputShape:
        self._check_shapes(query_shape, value_shape, key_shape or value_shape)
        return (*tuple(query_shape)[:-1], self._context_dim(query_shape, value_shape))

    def _context_dim(self, query_shape, value_shape):
        """Returns the width of the context."""
        return value_shape[-1]

    def _weights_shape(self, query_shape, num_keys):
        """Returns the shape of the weights."""
        batch, *queries = tuple(query_shape)[:-1]
        heads = [self.num_heads] if self.num_heads else []
        return (batch, *heads, *queries, num_keys)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        query, value, key = call.query, call.value, call.value if call.key is None else call.key
        shape = self.compute_output_shape(query.shape, value.shape, key.shape)
        self._query_masks(query, value, call.query_mask, call.attention_mask, call.use_causal_mask)
        self._source_mask(value, call.value_mask, call.key_mask)
        self._check_bias(query, value.shape[1], call.attention_bias)
        self._check_previous_weights(query, key, call.previous_weights)
        rows = tuple(query.shape)[:-1]
        weights_shape = self._weights_shape(query.shape, value.shape[1])
        auxiliary = {name: keras.KerasTensor(rows, "float32") for name in self.auxiliary_outputs}
        return select_outputs(
            keras.KerasTensor(shape, self.compute_dtype),
            (call.return_attention_scores, keras.KerasTensor(weights_shape, self.compute_dtype)),
            (call.return_auxiliary_outputs, auxiliary),
        )

    def get_pieces_config(self) -> Config:
        """Returns the config of the arguments that all attention layers share."""
        return {
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _squeeze_step(results):
    """Returns all results without the query axis: the last but one, or of rank 2 the last."""
    return keras.tree.map_structure(
        lambda tensor: ops.squeeze(tensor, 1 if len(tensor.shape) == 2 else -2), results
    )
