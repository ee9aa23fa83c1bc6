"""Multi-head attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2.2.

    head_i    = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    MultiHead = Concat(head_1, ..., head_h) W^O

Code name -> paper name: `num_heads` -> h, `key_dim` -> d_k, `value_dim` -> d_v, `output_dim` ->
d_model; the kernel of `query_dense` -> W_1^Q .. W_h^Q side by side, those of `key_dense` and
`value_dense` likewise, that of `output_dense` -> W^O. The paper has no biases: without them, and
with d_k = d_v = d_model / h, there are 4 d_model^2 parameters. Fewer key/value heads than query
heads: Ainslie et al. 2023 (https://arxiv.org/abs/2305.13245).
"""

import keras
from keras import initializers, ops

from keras_attention import checks, scorers
from keras_attention.checks import check_ready
from keras_attention.initialization import copy_of, independent
from keras_attention.mechanisms import blocked_dot, heads
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.mechanisms.heads import HeadsReading
from keras_attention.mechanisms.key_value_cache import empty_cache, written
from keras_attention.mechanisms.reading import pair_mask
from keras_attention.mechanisms.rotary import RotaryPositions
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.precision import at_least_float32
from keras_attention.products import Dense
from keras_attention.shapes import reshape, spelled_out


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(AttentionMechanism):
    """Reads a value several times at once, each head in a projection of its own.

    Use it wherever one reading is too little: it is the attention of the Transformer. Any
    scorer and normalizer may take the place of scaled dot products and softmax. A scorer
    without weights serves all heads; one with weights is copied, so that each head has its own,
    and the heads are then scored one after another. The normalizer serves all heads.

    Where the weights are not asked for and nothing but softmax over (scaled) dot products is
    computed, sequences of a known and great length are read by blocks: all scores are never
    held at once, and there is no second derivative.

    Args:
        num_heads: Positive int.
        key_dim: Positive int, the width of a head's queries and keys.
        value_dim: Positive int, the width of a head's values; None is `key_dim`.
        num_key_value_heads: Positive int that divides `num_heads`; that many heads of keys and
            values are shared by groups of query heads. None is one for each.
        scorer: A `Scorer` or its name, see `Attention`.
        normalizer: A `Normalizer` or its name.
        output_dim: Positive int, the width of the context; None is the width of the query.
        use_bias: Whether the four projections have biases.
        rotary: Optional `RotaryPositions`, which turns queries and keys by their positions:
            keys stand at 0, 1, 2, ..., queries at `query_position` and after it.
        kernel_initializer: Initializer of the kernels, each `(input_dim, heads * dim)`.
        bias_initializer: Initializer of the biases.
        dropout: Float in [0, 1), the share of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`,
        `query_position`; `previous_weights` has the shape of the weights. Then:
        attention_bias: Optional float tensor `(1 or batch, 1 or heads, query, key)`, without
            the query axis for a query of rank 2, added to the scores: relative positions, or
            `alibi_bias`. It must be finite; a mask is an `attention_mask`.
        attention_mask: Besides `(batch, query, key)` and `(query, key)` one with an axis of heads,
            `(batch, 1 or heads, query, key)`, without the query axis for a query of rank 2. Each
            axis may be 1.

    Returns:
        The context `(batch, query, output_dim)`, or the pair of context and weights
        `(batch, heads, query, key)` if `return_attention_scores`. For a query of rank 2 the
        query axis is missing in both.

    Raises:
        ValueError: If a size is not a positive int, `num_key_value_heads` does not divide
            `num_heads`, a piece is unknown, or the tensors do not fit together.

    Cache: a decoder that writes one position after another keeps `start_cache(rows, length)`,
        adds each new position with `extend_cache` and reads it with `attend`.

    Example:

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=3)
    >>> states = keras.ops.ones((2, 5, 6))
    >>> context, weights = attention(states, states, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 5, 6), (2, 2, 5, 5))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.2.
    """

    has_heads = True

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        num_key_value_heads=None,
        scorer="scaled_dot",
        normalizer="softmax",
        output_dim=None,
        use_bias=False,
        rotary=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.autocast = False  # a bias is added in float32, not rounded first
        sizes = {"num_heads": num_heads, "key_dim": key_dim, "value_dim": value_dim}
        sizes |= {"num_key_value_heads": num_key_value_heads, "output_dim": output_dim}
        for name, size in sizes.items():
            if size is not None or name in ("num_heads", "key_dim"):
                checks.positive_int("MultiHeadAttention", name, size)
            setattr(self, name, size)
        self._value_dim, self._groups = value_dim or key_dim, num_key_value_heads or num_heads
        if num_heads % self._groups:
            raise ValueError(
                "MultiHeadAttention expects `num_key_value_heads` to divide `num_heads`: each "
                "serves as many query heads. Received: num_heads="
                f"{num_heads}, num_key_value_heads={num_key_value_heads}"
            )
        self.scorer = scorers.get(scorer, dtype=self.dtype_policy)
        self.more_scorers = []
        self.use_bias = bool(use_bias)
        self._widths = None
        self.rotary = _rotary_from(rotary, key_dim)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        widths = {"query": query_shape[-1], "key": key_shape[-1], "value": value_shape[-1]}
        units = {
            "query": self.num_heads * self.key_dim,
            "key": self._groups * self.key_dim,
            "value": self._groups * self._value_dim,
            "output": self.output_dim or query_shape[-1],
        }
        input_dims = {**widths, "output": self.num_heads * self._value_dim}
        for index, name in enumerate(units):
            dense = Dense(
                units[name],
                use_bias=self.use_bias,
                kernel_initializer=independent(self.kernel_initializer, index),
                bias_initializer=independent(self.bias_initializer, index),
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build((None, input_dims[name]))
            setattr(self, f"{name}_dense", dense)
        self._build_pieces()
        self._widths = widths
        self.built = True

    def _build_pieces(self):
        rows = (None, None, self.key_dim)
        if not self.scorer.built:
            self.scorer.build(rows, rows)
        if self.scorer.weights:
            self.more_scorers = [copy_of(self.scorer, head) for head in range(1, self.num_heads)]
            for scorer in self.more_scorers:
                scorer.build(rows, rows)
        if not self.normalizer.built:
            self.normalizer.build((None, self.num_heads, None, None))

    def prepare(self, value, key=None, value_mask=None, key_mask=None):
        """Returns what depends on the source alone, to be passed to `attend`.

        Returns:
            A dict with `key` (what the scorer prepared from each head's keys), `value`
            `(batch, key_value_heads, key, value_dim)` and `mask`, boolean `(batch, key)`.
        """
        source = self._project_source(value, key, value_mask, key_mask)
        keys = heads.prepare_heads(self._scorers, source["projected"])
        return {"key": keys, "value": source["value"], "mask": source["mask"]}

    def start_cache(self, rows, max_length):
        """Returns a cache with nothing written, for `rows` sequences of up to `max_length`.

        Returns:
            A dict with `projected` `(rows, key_value_heads, max_length, key_dim)`, the keys,
            `value` `(rows, key_value_heads, max_length, value_dim)` and `mask`, boolean
            `(rows, max_length)`, True where something was written. Beams are reordered by
            gathering rows of all three.
        """
        if not self.built:
            check_ready(self, rows)
        sizes = {"projected": (self._groups, self.key_dim)}
        sizes["value"] = (self._groups, self._value_dim)
        return empty_cache(rows, max_length, sizes, self.compute_dtype)

    def extend_cache(self, cache, value, position, key=None, value_mask=None, key_mask=None):
        """Returns the cache with the keys and values of new positions written into it.

        Args:
            cache: What `start_cache` or this method returned.
            value: Float tensor `(rows, new, dim)`, or `(rows, dim)` for one new position.
            position: Int `(rows,)`, the position of the (first) new one of each row. Positions
                from `max_length` on are not written.
            key: Float tensor like `value`; `value` by default.
            value_mask: Optional boolean `(rows, new)` or `(rows,)`. A position that is False is
                written as one that nothing may read.
            key_mask: The same, joined with `value_mask`.
        """
        if len(value.shape) == 2:
            tensors = (value, key, value_mask, key_mask)
            value, key, value_mask, key_mask = map(heads.with_axis, tensors)
        new = self._project_source(value, key, value_mask, key_mask, position)
        return written(cache, new, position)

    def attend(
        self,
        query,
        prepared,
        previous_weights=None,
        position=None,
        noise=None,
        training=None,
        return_details=False,
        attention_bias=None,
        use_causal_mask=False,
        attention_mask=None,
    ):
        """Reads a prepared source or a cache: one decoder step, or several queries at once.

        Args:
            query: Float tensor `(batch, query, query_dim)` or `(batch, query_dim)`.
            prepared: What `prepare` or `extend_cache` returned.
            previous_weights: Optional float tensor like the weights.
            position: Optional int `(batch,)`, the position of the (first) query, or
                `(batch, query)`, that of each; 0 by default.
            noise: Optional dict, what the method `noise` returned for these queries.
            training: Whether this is training; dropout comes with `noise` alone.
            return_details: Whether the (empty) dict of details is returned too.
            attention_bias: As in the call.
            use_causal_mask: Whether a query reads only keys up to its position. One query
                that was just written needs none: what was not written is masked.
            attention_mask: As in the call, over the places of a cache.

        Returns:
            Context and weights, as the call does with `return_attention_scores=True`.
        """
        check_ready(self, query)
        noise = noise or {}
        rows, num_keys = tuple(query.shape[:-1]), prepared["mask"].shape[1]
        mask = self.pair_mask(rows, num_keys, attention_mask)
        attention_mask, head_mask = heads.split_mask(mask, len(query.shape))
        if len(query.shape) == 3:  # (batch, query, heads, key)
            noise = {name: ops.swapaxes(part, 1, 2) for name, part in noise.items()}
        reading = HeadsReading(
            source_mask=prepared["mask"],
            attention_mask=attention_mask,
            causal=use_causal_mask,
            position=position,
            previous_weights=previous_weights,
            noise=noise,
            training=training,
            bias=attention_bias,
            head_mask=head_mask,
        )
        return self._answer(query, prepared, reading, return_details)

    def noise(self, batch, num_queries, num_keys, training=None):
        """Returns what a reading draws at random: a dict of `(batch, query, heads, key)`."""
        drawn = super().noise(batch, num_queries * self.num_heads, num_keys, training)
        shape = (batch, num_queries, self.num_heads, num_keys)
        return {name: reshape(tensor, shape) for name, tensor in drawn.items()}

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
        attention_bias=None,
    ):
        self._check_shapes(query.shape, value.shape, value.shape if key is None else key.shape)
        masks = self._query_masks(query, value, query_mask, attention_mask, use_causal_mask)
        query_mask, attention_mask = masks
        attention_mask, head_mask = heads.split_mask(attention_mask, len(query.shape))
        self._check_bias(query, value, attention_bias)
        prepared = self.prepare(value, key, value_mask, key_mask)
        unmasked = value_mask is None and key_mask is None
        reading = HeadsReading(
            source_mask=None if unmasked else prepared["mask"],
            query_mask=query_mask,
            attention_mask=attention_mask,
            causal=use_causal_mask,
            position=query_position,
            previous_weights=previous_weights,
            training=training,
            wants_weights=return_attention_scores,
            whole=len(query.shape) == 3,
            bias=attention_bias,
            head_mask=head_mask,
        )
        return self._answer(query, prepared, reading, return_details)

    def _answer(self, query, prepared, reading, return_details):
        """Reads for a query of rank 2 or 3 and returns what was asked for."""
        step = len(query.shape) == 2
        if step:
            query, reading = ops.expand_dims(query, 1), reading.with_query_axis()
        query = ops.cast(query, self.compute_dtype)
        if reading.query_mask is not None:
            query = ops.where(reading.query_mask[:, :, None], query, 0)  # as with padded keys
        context, weights, details = self._read(query, prepared, reading)
        results = [ops.squeeze(context, 1) if step else context]
        if reading.wants_weights:
            results.append(ops.squeeze(weights, 2) if step else weights)
        results += [details] if return_details else []
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def _scorers(self):
        return [self.scorer, *self.more_scorers]

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
            # Padding may hold anything, even NaN, which a weight of 0 would not silence.
            mask = spelled_out(mask, value)
            value = ops.where(mask[:, :, None], value, 0)
            key = value if same else ops.where(mask[:, :, None], key, 0)
        keys = heads.split_heads(heads.projected(self.key_dense, key), self._groups)
        if self.rotary is not None:
            keys = self.rotary(keys, position)
        values = heads.split_heads(heads.projected(self.value_dense, value), self._groups)
        return {"projected": keys, "value": values, "mask": mask}

    def _read(self, query, prepared, reading):
        """The heads' readings, joined: context, weights (None if not wanted) and no details."""
        num_queries, num_keys = ops.shape(query)[1], ops.shape(prepared["mask"])[1]
        queries = heads.split_heads(heads.projected(self.query_dense, query), self.num_heads)
        if self.rotary is not None:
            queries = self.rotary(queries, reading.positions(num_queries))
        keys = prepared.get("key")
        if keys is None:  # a cache
            keys = heads.prepare_heads(self._scorers, prepared["projected"])
        weights = None
        covered = blocked_dot.covers(self, reading, queries, prepared["value"])
        if covered and reading.bias is None and reading.head_mask is None:
            contexts = blocked_dot.read(self.scorer, queries, keys, prepared["value"], reading)
        else:
            scores = heads.head_scores(
                self._scorers,
                queries,
                keys,
                self._groups,
                reading.previous_weights,
                prepared["value"].shape[2],
                not reading.whole,
            )
            weights = self._weigh(scores, reading)
            contexts = heads.head_contexts(self._dropped(weights, reading), prepared["value"])
        context = heads.projected(self.output_dense, heads.join_heads(contexts))
        kept = reading.keeps_rows(num_queries, num_keys) if self.use_bias else None
        # A row that read nothing is 0, not the bias.
        return context if kept is None else ops.where(kept[:, :, None], context, 0), weights, {}

    def _weigh(self, scores, reading):
        """Returns the weights for scores `(batch, heads, query, key)`, in the compute dtype."""
        if reading.bias is not None:
            scores = at_least_float32(scores)
            scores = scores + ops.cast(reading.bias, scores.dtype)
        sizes = ops.shape(scores)
        mask = reading.pairs(sizes[2], sizes[3])
        if mask is not None and not isinstance(self.normalizer, SoftmaxNormalizer):
            mask = ops.broadcast_to(mask, sizes)  # spelled out, all normalizers see rows
        weights = self.normalizer(
            scores,
            mask=mask,
            previous_weights=reading.previous_weights,
            training=reading.training,
            noise=(reading.noise or {}).get("normalizer"),
        )
        return ops.cast(weights, self.compute_dtype)

    def _check_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "key": key_shape, "value": value_shape}
        heads.check_shapes("MultiHeadAttention", shapes, self._widths)
        rows = (None, None, self.key_dim)
        self.scorer.check_shapes(rows, rows)

    def pair_mask(self, rows, num_keys, mask):
        """Returns the checked `attention_mask`, boolean; it may have an axis of heads."""
        return pair_mask("MultiHeadAttention", rows, num_keys, mask, self.num_heads)

    def _check_bias(self, query, value, bias):
        shape = (query.shape[0], self.num_heads, *query.shape[1:-1], value.shape[1])
        heads.check_bias("MultiHeadAttention", bias, shape)

    def _context_dim(self, query_shape, value_shape):
        return self.output_dim or query_shape[-1]

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
        attention_bias=None,
    ):
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
            return_details=return_details,
        )
        if not return_attention_scores:
            return results
        batch, *queries = tuple(query.shape)[:-1]
        shape = (batch, self.num_heads, *queries, value.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (results[0], weights, *results[2:])

    def get_config(self):
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
            **self.pieces_config(),
        }


def _rotary_from(rotary, key_dim):
    """Returns the `RotaryPositions` that an object or its config stands for, or None."""
    if isinstance(rotary, dict):
        rotary = keras.saving.deserialize_keras_object(rotary)
    if rotary is None:
        return None
    if not isinstance(rotary, RotaryPositions):
        raise ValueError(
            "MultiHeadAttention expects `rotary` to be a `RotaryPositions` object or None. "
            f"Received: rotary={rotary!r}"
        )
    rotary.check_width("key_dim", key_dim)
    return rotary
