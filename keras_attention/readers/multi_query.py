"""Multi-query pooling: several queries read one source, and their contexts stand side by side.

    context_i = sum_j a_ij v_j          a_i = softmax_j(score(q_i, k_j))        i = 1 .. m
    result    = [context_1; ...; context_m]

There are no projections: this is not multi-head attention, which projects queries, keys and
values for every head, and not the later "multi-query attention", whose heads share one projected
key and value. The queries are inputs, or learned (`LearnedQueries`).

Code name -> symbol: `query` -> q, `key` -> k, `value` -> v, `weights` -> a.
"""

import keras
from keras import ops

from keras_attention.layer import Layer
from keras_attention.mechanisms.attention import Attention


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiQueryPooling(Layer):
    """Reads a sequence with several queries into one long vector.

    Use it where a sequence becomes one vector and one average of it says too little: each
    query looks for something of its own. With one query it is attention with a query of rank 2.

    Args:
        scorer: A `Scorer`, or the name of one without required arguments.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the share of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        query: Float tensor `(batch, query, query_dim)`; for learned queries what
            `LearnedQueries(num_queries, query_dim)(value)` returns.
        value: Float tensor `(batch, key, value_dim)`, what is read.
        key: Float tensor `(batch, key, key_dim)`, what is compared; `value` by default.
        query_mask: Boolean `(batch, query)`.
        value_mask, key_mask: Boolean `(batch, key)`; both must keep.
        attention_mask: Boolean `(batch, query, key)`, or `(query, key)`.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Whether dropout is applied.

    Returns:
        The contexts in a row, `(batch, query * value_dim)`, or with `return_attention_scores` the
        pair of it and the weights `(batch, query, key)`.

    Raises:
        ValueError: If a name is unknown, the query is not of rank 3, or the tensors do not fit
            together.

    Masking: reads the masks of query, value and key; a masked query's part of the result is 0.
    The result carries no mask.

    Example:

    >>> queries, value = keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 4))
    >>> vector, weights = MultiQueryPooling()(queries, value, return_attention_scores=True)
    >>> tuple(vector.shape), tuple(weights.shape)
    ((2, 12), (2, 3, 5))

    Reference: Lin et al. 2017, https://arxiv.org/abs/1703.03130, is the case of learned queries
    and a small network as scorer; Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section
    3.2.2, the one with projections, which this is not.
    """

    def __init__(self, scorer="scaled_dot", normalizer="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention = Attention(
            scorer, normalizer, dropout, seed, dtype=self.dtype_policy, name="attention"
        )
        self.scorer, self.normalizer = self.attention.scorer, self.attention.normalizer
        self.dropout, self.seed = dropout, seed

    def build(self, query_shape, value_shape, key_shape=None):
        self._check_rank(query_shape)
        if not self.attention.built:
            self.attention.build(query_shape, value_shape, key_shape)
        self.built = True

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
    ):
        self._check_rank(query.shape)
        context, weights = self.attention(
            query,
            value,
            key,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
            return_attention_scores=True,
            training=training,
        )
        batch, count, dim = ops.shape(context)
        pooled = ops.reshape(context, (batch, count * dim))
        return (pooled, weights) if return_attention_scores else pooled

    def _check_rank(self, query_shape):
        if len(query_shape) != 3:
            raise ValueError(
                "MultiQueryPooling expects `query` of shape (batch, query, query_dim). For one "
                f"query use `Attention`. Received: query.shape={tuple(query_shape)}"
            )

    def compute_mask(self, *args, **kwargs):
        return None

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        self._check_rank(query_shape)
        self.attention.compute_output_shape(query_shape, value_shape, key_shape)
        count = query_shape[1]
        return (query_shape[0], None if count is None else count * value_shape[-1])

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
    ):
        self._check_rank(query.shape)
        _, weights = self.attention.compute_output_spec(
            query,
            value,
            key,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
            return_attention_scores=True,
        )
        shape = self.compute_output_shape(query.shape, value.shape)
        pooled = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (pooled, weights) if return_attention_scores else pooled

    def get_config(self):
        return {
            **super().get_config(),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }
