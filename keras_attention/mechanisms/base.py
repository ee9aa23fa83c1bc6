"""Attention in three stages: scores, weights, context.

scores  = scorer(query, key)
weights = normalizer(scores, mask)
context = sum over keys of weights * value
"""

import keras
from keras import ops

from keras_attention import checks, normalizers
from keras_attention.checks import check_ready
from keras_attention.dropout import dropout_noise
from keras_attention.layer import Layer
from keras_attention.mechanisms import blocked_dot
from keras_attention.mechanisms.reading import Reading, joined, pair_mask
from keras_attention.shapes import spelled_out


class AttentionMechanism(Layer):
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
        attention_mask: Boolean `(batch, query, key)`, or `(query, key)` for every row alike;
            `(batch, key)` for a query of rank 2.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Whether dropout is applied.
        use_causal_mask: Whether query i reads only keys 0 to i.
        query_position: Int `(batch,)`, the position of the first query among the keys,
            for causal reading under a cache; 0 by default.
        previous_weights: Float tensor like the weights, for pieces that look at them.
        return_details: Whether the mechanism's further results are returned too: a dict of
            float32 tensors `(batch, query)`, with the names in `details`.

    Returns:
        The context `(batch, query, value_dim)`, followed by what was asked for: the weights
        `(batch, query, key)`, taken before dropout, and the details. For a query of
        rank 2 the query axis is missing in all of them.

    Masking: reads the masks of query, value and key; passes the query's on. An integer mask is
        taken as Keras takes it, 0 masks.
    """

    #: Names of what a reading tells besides context and weights.
    details = ()
    #: Whether the weights have an axis of heads between batch and query.
    has_heads = False

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

    @property
    def reads_weights(self):
        """Which earlier weights the pieces look at: None, "previous" or "accumulated"."""
        if self.normalizer.reads_weights and self.scorer.reads_weights == "accumulated":
            raise ValueError(
                f"{type(self).__name__} passes one tensor of earlier weights on, but its scorer "
                "accumulates them and its normalizer needs those of the last step. Combine them "
                f"with other pieces. Received: scorer={type(self.scorer).__name__}, "
                f"normalizer={type(self.normalizer).__name__}"
            )
        return "previous" if self.normalizer.reads_weights else self.scorer.reads_weights

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
        mask = spelled_out(self._source_mask(value.shape, value_mask, key_mask), value)
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

    def attend(
        self,
        query,
        prepared,
        previous_weights=None,
        position=None,
        noise=None,
        training=None,
        return_details=False,
    ):
        """Reads a prepared source: one decoder step, or several queries at once.

        Args:
            query: Float tensor `(batch, query, query_dim)` or `(batch, query_dim)`.
            prepared: What `prepare` returned.
            previous_weights: Optional float tensor like the weights.
            position: Optional int tensor `(batch,)`, the step of the (first) query, or
                `(batch, query)`, that of each, for mechanisms that look at it.
            noise: Optional dict, what the method `noise` returned for these queries.
            training: Whether this is training; dropout comes with `noise` alone.
            return_details: Whether the details are returned too.

        Returns:
            Context and weights, as `call` does with `return_attention_scores=True`, and the
            dict of details if they were asked for.
        """
        check_ready(self, query)
        step = len(query.shape) == 2
        reading = Reading(
            source_mask=prepared["mask"],
            position=position,
            previous_weights=_expand(previous_weights) if step else previous_weights,
            noise=keras.tree.map_structure(_expand, noise) if step and noise else noise or {},
            training=training,
        )
        query = ops.cast(query, self.compute_dtype)
        results = self._read(_expand(query) if step else query, prepared, reading)
        results = results if return_details else results[:2]
        return keras.tree.map_structure(_squeeze, results) if step else results

    def noise(self, batch, num_queries, num_keys, training=None):
        """Returns what a reading of these sizes draws at random, for loops to draw beforehand.

        Returns:
            A dict of float tensors `(batch, num_queries, ...)`; empty where nothing is random.
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
        return_details=False,
    ):
        self._check_shapes(query.shape, value.shape, value.shape if key is None else key.shape)
        masks = self._query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        query_mask, attention_mask = masks
        prepared = self.prepare(value, key, value_mask, key_mask)
        query = ops.cast(query, self.compute_dtype)
        step = len(query.shape) == 2
        if step:
            query, query_mask = _expand(query), _expand(query_mask)
            attention_mask, previous_weights = _expand(attention_mask), _expand(previous_weights)
        if query_mask is not None:
            query = ops.where(query_mask[:, :, None], query, 0)  # as `prepare` does with keys
        unmasked = value_mask is None and key_mask is None
        reading = Reading(
            source_mask=None if unmasked else prepared["mask"],
            query_mask=query_mask,
            attention_mask=attention_mask,
            causal=use_causal_mask,
            position=query_position,
            previous_weights=previous_weights,
            training=training,
            wants_weights=return_attention_scores,
            in_call=True,
            whole=not step,
        )
        context, weights, details = self._read(query, prepared, reading)
        results = [context]
        results += [weights] if return_attention_scores else []
        results += [details] if return_details else []
        if step:
            results = keras.tree.map_structure(_squeeze, results)
        return results[0] if len(results) == 1 else tuple(results)

    def _read(self, query, prepared, reading):
        """The three stages for a query of rank 3: context, weights and the dict of details.

        The weights are None where nobody asks for them and they would be too large to hold.
        """
        if blocked_dot.covers(self, reading, query, prepared["value"]):
            tensors = query, prepared["key"], prepared["value"]
            return blocked_dot.read(self.scorer, *tensors, reading), None, {}
        scores = self.scores(query, prepared, reading)
        weights = self._weigh(scores, reading)
        return ops.matmul(self._dropped(weights, reading), prepared["value"]), weights, {}

    def scores(self, query, prepared, reading):
        """Returns the scorer's scores `(batch, query, key)` of what `prepare` returned."""
        num_keys = prepared["value"].shape[1]
        return self.scorer.compare(
            query, prepared["key"], reading.previous_weights, num_keys, not reading.whole
        )

    def _mask(self, scores, reading):
        """Returns what may be read, in the shape of the scores; None for everything."""
        sizes = ops.shape(scores)
        mask = joined(reading.mask(sizes[1], sizes[2]), self.scorer.reach(sizes[2]))
        # A mask of one row serves every query; spelled out, all normalizers see rows.
        return None if mask is None else ops.broadcast_to(mask, sizes)

    def _weigh(self, scores, reading):
        """Returns the weights for scores `(batch, query, key)`, in the compute dtype."""
        weights = self.normalizer(
            scores,
            mask=self._mask(scores, reading),
            previous_weights=reading.previous_weights,
            training=reading.training,
            noise=(reading.noise or {}).get("normalizer"),
        )
        return ops.cast(weights, self.compute_dtype)

    def _dropped(self, weights, reading):
        """Returns the weights after dropout; the caller gets those before it."""
        if reading.noise is not None:
            noise = reading.noise.get("dropout")
        elif reading.training and self.dropout > 0:
            shape = ops.shape(weights)
            noise = dropout_noise(shape, self.dropout, self.seed_generator, weights.dtype)
        else:
            noise = None
        return weights if noise is None else weights * ops.cast(noise, weights.dtype)

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

    def _source_mask(self, value_shape, value_mask, key_mask):
        """Returns what both masks of the source keep, boolean `(batch, key)`, or None."""
        owner, shape = type(self).__name__, tuple(value_shape[:2])
        return joined(
            checks.boolean_mask(owner, "value_mask", value_mask, shape, "(batch, key)"),
            checks.boolean_mask(owner, "key_mask", key_mask, shape, "(batch, key)"),
        )

    def pair_mask(self, rows, num_keys, mask):
        """Returns the checked `attention_mask`, boolean, or None.

        Args:
            rows: The shape of the query without its last axis.
            num_keys: Int, or None where it is not known.
            mask: The mask, or None. One of rank 2 is `(query, key)`, unless the query is of rank 2
                itself.

        Returns:
            `(1 or batch, 1 or query, 1 or key)`, without the query axis for a query of rank 2.
        """
        return pair_mask(type(self).__name__, rows, num_keys, mask)

    def _query_masks(self, query, value, query_mask, attention_mask, use_causal_mask):
        """Returns the masks of queries and of pairs as booleans, and checks all that was asked."""
        owner = type(self).__name__
        rows = tuple(query.shape[:-1])
        axes = "(batch, query)" if len(rows) == 2 else "(batch,)"
        query_mask = checks.boolean_mask(owner, "query_mask", query_mask, rows, axes)
        if use_causal_mask and len(rows) == 1:
            raise ValueError(
                f"{owner} needs a query axis to mask causally; expand the query to (batch, 1, "
                "query_dim) and say where it stands with `query_position`. "
                f"Received: query.shape={tuple(query.shape)}, use_causal_mask=True"
            )
        return query_mask, self.pair_mask(rows, value.shape[1], attention_mask)

    def compute_mask(self, query, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        self._check_shapes(query_shape, value_shape, key_shape or value_shape)
        return (*tuple(query_shape)[:-1], self._context_dim(query_shape, value_shape))

    def _context_dim(self, query_shape, value_shape):
        """Returns the width of the context."""
        return value_shape[-1]

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
        return_details=False,
    ):
        key = value if key is None else key
        shape = self.compute_output_shape(query.shape, value.shape, key.shape)
        self._query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        self._source_mask(value.shape, value_mask, key_mask)
        rows = tuple(query.shape)[:-1]
        results = [keras.KerasTensor(shape, dtype=self.compute_dtype)]
        if return_attention_scores:
            weights_shape = (*rows, value.shape[1])
            results.append(keras.KerasTensor(weights_shape, dtype=self.compute_dtype))
        if return_details:
            results.append({name: keras.KerasTensor(rows, "float32") for name in self.details})
        return results[0] if len(results) == 1 else tuple(results)

    def pieces_config(self):
        """Returns the config of the pieces every mechanism shares."""
        return {
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _expand(tensor):
    return None if tensor is None else ops.expand_dims(tensor, 1)


def _squeeze(tensor):
    return ops.squeeze(tensor, 1)
