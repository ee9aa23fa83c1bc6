"""Multi-query pooling: several queries attend to one source; their contexts are concatenated.

    context_i = sum_j a_ij v_j          a_i = softmax_j(score(q_i, k_j))        i = 1 .. m
    result    = [context_1; ...; context_m]

There are no projections: this is not multi-head attention, which projects queries, keys and
values for every head, and not the later "multi-query attention", whose heads share one projected
key and value. The queries are inputs, or learned (`LearnedQueries`).

Code name -> symbol: `query` -> q, `key` -> k, `value` -> v, `weights` -> a.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
)
from keras_attention.attention.attention import Attention
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiQueryPooling(Layer):
    """Pools a sequence with several queries into one long vector.

    Use it if one weighted mean of a sequence is not enough: each query can attend to something
    else. With one query it is attention with a query of rank 2.

    Args:
        scorer: A `Scorer`, or the name of one without required arguments.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        query: Float tensor `(batch, query, query_dim)`; for learned queries the output of
            `LearnedQueries(num_queries, query_dim)(value)`.
        value: Float tensor `(batch, key, value_dim)`, the vectors that are averaged.
        key: Float tensor `(batch, key, key_dim)`, the vectors that are compared; `value` by
            default.
        query_mask: Boolean `(batch, query)`.
        value_mask, key_mask: Boolean `(batch, key)`; combined with `&`.
        attention_mask: Boolean `(batch, query, key)`, or `(query, key)`.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Whether dropout is applied.

    Returns:
        The concatenated contexts, `(batch, query * value_dim)`, or with `return_attention_scores`
        the pair of it and the weights `(batch, query, key)`.

    Raises:
        ValueError: If a name is unknown, the query is not of rank 3, or the tensors do not fit
            together.

    Masking: uses the masks of query, value and key; a masked query's part of the result is 0.
    The result carries no mask.

    Example:

    >>> queries, value = keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 4))
    >>> vector, weights = MultiQueryPooling()(queries, value, return_attention_scores=True)
    >>> tuple(vector.shape), tuple(weights.shape)
    ((2, 12), (2, 3, 5))

    Reference: Lin et al. 2017, https://arxiv.org/abs/1703.03130, use learned queries and a small
    network as scorer. Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.2, add
    projections, which this layer lacks.
    """

    scorer: Scorer
    normalizer: Normalizer
    dropout: float
    seed: int | None

    def __init__(
        self,
        scorer: str | Scorer | Config = "scaled_dot",
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention: Attention = Attention(
            scorer, normalizer, dropout, seed, dtype=self.dtype_policy, name="attention"
        )
        self.scorer, self.normalizer = self.attention.scorer, self.attention.normalizer
        self.dropout, self.seed = dropout, seed

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self._check_rank(query_shape)
        if not self.attention.built:
            self.attention.build(query_shape, value_shape, key_shape)
        self.built = True

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
    ) -> Outputs:
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
        batch, count, dim = get_shape(context)
        pooled = ops.reshape(context, (batch, count * dim))
        return (pooled, weights) if return_attention_scores else pooled

    def _check_rank(self, query_shape):
        if len(query_shape) != 3:
            raise ValueError(
                "MultiQueryPooling expects `query` of shape (batch, query, query_dim). For one "
                f"query use `Attention`. Received: query.shape={tuple(query_shape)}"
            )

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> OutputShape:
        self._check_rank(query_shape)
        self.attention.compute_output_shape(query_shape, value_shape, key_shape)
        count = query_shape[1]
        return (query_shape[0], None if count is None else count * value_shape[-1])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_rank(call.query.shape)
        options = {**vars(call), "return_attention_scores": True}
        context, weights = self.attention.compute_output_spec(**options)
        batch, count, dim = context.shape
        shape = (batch, None if count is None else count * dim)
        pooled = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (pooled, weights) if call.return_attention_scores else pooled

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }
