"""Attention in three stages: scores, weights, context.

scores  = scorer(query, key)
weights = normalizer(scores, mask)
context = sum over keys of weights * value
"""

import keras
from keras import ops

from keras_attention import checks, normalizers
from keras_attention.dropout import dropout_noise
from keras_attention.scorers.base import check_ready


class AttentionMechanism(keras.layers.Layer):
    """Reads a value by comparing queries with keys; the base of the named mechanisms.

    A mechanism is a scorer, a normalizer and a reader; a subclass chooses them and sets
    `self.scorer`. It keeps no state: what is attended to is an argument. `call` does
    everything at once; `prepare` and `attend` are the same in two parts, for decoders
    that read one source at many steps.

    Call arguments:
        query: Float tensor `(batch, query, query_dim)`, or `(batch, query_dim)` for one
            decoder step.
        value: Float tensor `(batch, key, value_dim)`, what is read.
        key: Float tensor `(batch, key, key_dim)`, what is compared; `value` by default.
        query_mask: Boolean `(batch, query)`, or `(batch,)` for a query of rank 2. A row
            that is False gets weights and context 0.
        value_mask: Boolean `(batch, key)`, True for positions that may be read.
        key_mask: Boolean `(batch, key)`, joined with `value_mask`.
        attention_mask: Boolean `(batch, query, key)`, or `(batch, key)` for a query of rank 2.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Whether dropout is applied.
        use_causal_mask: Whether query i reads only keys 0 to i.
        query_position: Int `(batch,)`, the position of the first query among the keys,
            for causal reading under a cache; 0 by default.
        previous_weights: Float tensor like the weights, for pieces that look at them.

    Returns:
        The context `(batch, query, value_dim)`, or with `return_attention_scores` the pair
        of context and weights `(batch, query, key)`, taken before dropout. For a
        query of rank 2 the query axis is missing in both.

    Masking: reads the masks of query, value and key; passes the query's on.
    """

    def __init__(self, normalizer="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.dropout = checks.number_in_range(owner, "dropout", dropout, 0, 1, below=True)
        self.seed = seed
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        if not self.scorer.built:
            self.scorer.build(query_shape, key_shape)
        if not self.normalizer.built:
            self.normalizer.build((*tuple(query_shape)[:-1], tuple(key_shape)[1]))
        self.built = True

    def prepare(self, value, key=None, value_mask=None, key_mask=None):
        """Returns what depends on the source alone, to be passed to `attend`.

        Masks are explicit here: a plain method does not see those attached to tensors.

        Returns:
            A dict with `key` (what the scorer prepared), `value`
            `(batch, key, value_dim)` in the compute dtype and `mask`, boolean
            `(batch, key)`.
        """
        check_ready(self, value)
        key = value if key is None else key
        owner = type(self).__name__
        mask = _join(value_mask, key_mask)
        for name, given in (("value_mask", value_mask), ("key_mask", key_mask)):
            checks.boolean_mask(owner, name, given, tuple(value.shape[:2]), "(batch, key)")
        same = key is value
        value = ops.cast(value, self.compute_dtype)
        key = value if same else ops.cast(key, self.compute_dtype)
        if mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        else:
            # Padding may hold anything, even NaN, which a weight of 0 would not silence.
            value = ops.where(mask[:, :, None], value, 0)
            key = value if same else ops.where(mask[:, :, None], key, 0)
        return {"key": self.scorer.prepare(key), "value": value, "mask": mask}

    def attend(self, query, prepared, previous_weights=None, position=None, noise=None):
        """Reads a prepared source: one decoder step, or several queries at once.

        Args:
            query: Float tensor `(batch, query, query_dim)` or `(batch, query_dim)`.
            prepared: What `prepare` returned.
            previous_weights: Optional float tensor like the weights.
            position: Optional int tensor `(batch,)`, the step. Mechanisms that
                look at it say so; this one does not.
            noise: Optional float tensor like the weights, what `dropout_noise` drew.

        Returns:
            Context and weights, as `call` does with `return_attention_scores=True`.
        """
        check_ready(self, query)
        if len(query.shape) == 2:
            context, weights = self._read(
                ops.expand_dims(query, 1),
                prepared,
                prepared["mask"][:, None, :],
                _expand(previous_weights),
                _expand(noise),
            )
            return ops.squeeze(context, 1), ops.squeeze(weights, 1)
        mask = prepared["mask"][:, None, :]
        return self._read(query, prepared, mask, previous_weights, noise)

    def dropout_noise(self, shape):
        """Returns what multiplies weights of `shape` under dropout: 0 or `1 / (1 - rate)`.

        For loops, which draw all their noise before the first step.
        """
        return dropout_noise(shape, self.dropout, self.seed_generator, self.compute_dtype)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        query_position=None,
        previous_weights=None,
    ):
        self._check_shapes(query.shape, value.shape, value.shape if key is None else key.shape)
        step = len(query.shape) == 2
        prepared = self.prepare(value, key, value_mask, key_mask)
        self._check_query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        if step:
            query, query_mask = ops.expand_dims(query, 1), _expand(query_mask)
            attention_mask, previous_weights = _expand(attention_mask), _expand(previous_weights)
        mask = prepared["mask"][:, None, :]
        mask = _join(mask, attention_mask)
        if query_mask is not None:
            mask = ops.logical_and(mask, query_mask[:, :, None])
            query = ops.where(query_mask[:, :, None], query, 0)  # as `prepare` does with keys
        if use_causal_mask:
            causal = causal_mask(ops.shape(query)[1], ops.shape(value)[1], query_position)
            mask = ops.logical_and(mask, causal)
        context, weights = self._read(
            query, prepared, mask, previous_weights, None, training=training
        )
        if step:
            context, weights = ops.squeeze(context, 1), ops.squeeze(weights, 1)
        return (context, weights) if return_attention_scores else context

    def _read(self, query, prepared, mask, previous_weights, noise, training=None):
        """The three stages for a query of rank 3."""
        scores = self.scorer.score(query, prepared["key"], previous_weights)
        # A mask of one row serves every query; spelled out, so that all normalizers see rows.
        mask = ops.broadcast_to(mask, ops.shape(scores))
        weights = self.normalizer(
            scores, mask=mask, previous_weights=previous_weights, training=training
        )
        weights = ops.cast(weights, self.compute_dtype)
        if noise is None and training and self.dropout > 0:
            noise = self.dropout_noise(ops.shape(weights))
        dropped = weights if noise is None else weights * ops.cast(noise, weights.dtype)
        return ops.matmul(dropped, prepared["value"]), weights

    def _check_shapes(self, query_shape, value_shape, key_shape):
        owner = type(self).__name__
        if len(value_shape) != 3 or value_shape[-1] is None:
            raise ValueError(
                f"{owner} expects `value` of shape (batch, key, value_dim) with a known last "
                f"dimension. Received: value.shape={tuple(value_shape)}"
            )
        self.scorer.check_shapes(query_shape, key_shape)
        hint = "Each key belongs to one value."
        checks.same_dim(owner, 1, hint, value=value_shape, key=key_shape)
        checks.same_dim(owner, 0, query=query_shape, value=value_shape)

    def _check_query_masks(self, query, value, query_mask, attention_mask, use_causal_mask):
        owner = type(self).__name__
        rows = tuple(query.shape[:-1])
        axes = "(batch, query)" if len(rows) == 2 else "(batch,)"
        checks.boolean_mask(owner, "query_mask", query_mask, rows, axes)
        shape = (*rows, value.shape[1])
        axes = "(batch, query, key)" if len(rows) == 2 else "(batch, key)"
        checks.boolean_mask(owner, "attention_mask", attention_mask, shape, axes)
        if use_causal_mask and len(rows) == 1:
            raise ValueError(
                f"{owner} needs a query axis to mask causally; expand the query to (batch, 1, "
                "query_dim) and say where it stands with `query_position`. "
                f"Received: query.shape={tuple(query.shape)}, use_causal_mask=True"
            )

    def compute_mask(self, query, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*tuple(query_shape)[:-1], tuple(value_shape)[-1])

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        query_position=None,
        previous_weights=None,
    ):
        key = value if key is None else key
        self._check_shapes(query.shape, value.shape, key.shape)
        self._check_query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        for name, given in (("value_mask", value_mask), ("key_mask", key_mask)):
            shape = tuple(value.shape[:2])
            checks.boolean_mask(type(self).__name__, name, given, shape, "(batch, key)")
        context = keras.KerasTensor(
            self.compute_output_shape(query.shape, value.shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return context
        shape = (*tuple(query.shape)[:-1], value.shape[1])
        return context, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def pieces_config(self):
        """Returns the config of the pieces every mechanism shares."""
        return {
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def causal_mask(num_queries, num_keys, query_position=None):
    """Returns a boolean `(1 or batch, query, key)`: query i sits at `query_position + i`."""
    queries = ops.arange(num_queries)[None, :, None]
    if query_position is not None:
        queries = queries + ops.cast(query_position, queries.dtype)[:, None, None]
    return ops.arange(num_keys)[None, None, :] <= queries


def _join(one, other):
    if one is None or other is None:
        return one if other is None else other
    return ops.logical_and(one, other)


def _expand(tensor):
    return None if tensor is None else ops.expand_dims(tensor, 1)
