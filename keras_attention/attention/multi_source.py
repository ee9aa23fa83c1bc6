"""Attention to several sources, Libovický and Helcl 2017 (https://arxiv.org/abs/1704.06567).

    flat           e_ij^(k) = v . tanh(W s_i + U^(k) h_j^(k))           section 3.1
                   a_i = softmax of e_ij^(k) over all j of all k
                   c_i = sum_k sum_j a_ij^(k) U_c^(k) h_j^(k)

    hierarchical   a_i^(k), c_i^(k) = attention to source k alone       section 3.2
                   e_i^(k) = v . tanh(W s_i + U_b^(k) c_i^(k))
                   b_i = softmax of e_i^(k) over k
                   c_i = sum_k b_i^(k) U_c^(k) c_i^(k)

    sentinel       p_i = sigmoid(W_p s_i) * s_i, one more entry of the softmax that chooses among
                   sources: e = v . tanh(W s_i + U^(p) p_i), and U_c^(p) p_i is added to c_i

Code name -> paper name: `query` -> s_i, `value` -> h_j^(k) as `ConcatenateSources` lays them out,
so that `key_kernel` and `context_kernel` contain all U^(k) and all U_c^(k). `weights` -> a_ij^(k),
or b_i^(k) a_ij^(k) if hierarchical: in both, c_i = sum_k sum_j weights U_c^(k) h_j^(k).
`sentinel_gate` -> W_p. The gate of the paper, that of Lu et al. 2017
(https://arxiv.org/abs/1612.01887), also reads the decoder's input y_i; ours reads the query alone,
which has read y_i if attention follows the update of the state, as in `LuongDecoder`.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    TensorDict,
    TensorLike,
)
from keras_attention.attention._apply_dense import apply_dense
from keras_attention.attention._request import combine_masks
from keras_attention.attention.base import AttentionMechanism
from keras_attention.core.concatenate_sources import split_memory
from keras_attention.scorers import AdditiveScorer
from keras_attention.scorers.base import Scorer

OWNER = "MultiSourceAttention"


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiSourceAttention(AttentionMechanism):
    """Attends to several sources at once, as the memory of `ConcatenateSources`.

    Use it in a decoder of several encoders. With "flat", the positions of all sources compete in
    one softmax. With "hierarchical", each source has attention of its own, and a second one
    weighs their contexts; it scores all positions once for each source. Flat attention without
    a sentinel differs from `BahdanauAttention` over the same memory only by the projection of the
    context.

    Args:
        units: Positive int, the width that queries, keys and contexts are projected to in order
            to compare them.
        num_sources: Int of at least 2, the number of sources in the memory.
        combination: "flat" or "hierarchical".
        sentinel: Whether a gated copy of the query is one more source, which the decoder can
            attend to instead of all others. In the hierarchical combination it takes part in the
            attention over contexts. The weights of a query then sum to less than 1.
        context_dim: Positive int, the width of the context; `units` by default.
        dropout: Float in [0, 1), the fraction of weights dropped while training; the sentinel's
            is not.
        kernel_initializer: Initializer of all projections.
        vector_initializer: Initializer of all v.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`, here the
        memory `(batch, key, value_dim)` of `ConcatenateSources`, `key=None`, laid out likewise,
        the masks, `return_attention_scores`, `training`, `use_causal_mask`.

    Returns:
        The context `(batch, query, context_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`. The weights of the sources lie side by
        side: `keras.ops.split(weights, [length_0, ...], axis=-1)` splits them, and the sum over
        those of source k is the weight of the source.

    Auxiliary outputs: with a sentinel, `sentinel`, its weight.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: as in every mechanism. A fully masked source has weight 0; if all sources are fully
        masked, so has the sentinel.

    Example:

    >>> from keras_attention import ConcatenateSources
    >>> german, french = keras.ops.ones((2, 5, 3)), keras.ops.ones((2, 7, 4))
    >>> memory = ConcatenateSources()([german, french])
    >>> attention = MultiSourceAttention(8, num_sources=2, combination="hierarchical")
    >>> state = keras.ops.ones((2, 6))
    >>> context, weights = attention(state, memory, return_attention_scores=True)
    >>> tuple(context.shape), [one.shape[-1] for one in keras.ops.split(weights, [5], axis=-1)]
    ((2, 8), [5, 7])

    Reference: Libovický and Helcl 2017, https://arxiv.org/abs/1704.06567, section 3.
    """

    def __init__(
        self,
        units: int,
        num_sources: int,
        combination: str = "flat",
        sentinel: bool = False,
        context_dim: int | None = None,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        validation.refuse_arguments(OWNER, kwargs, "normalizer")
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.units: int = validation.check_positive_int(OWNER, "units", units)
        self.num_sources: int = validation.check_int_at_least(OWNER, "num_sources", num_sources, 2)
        self.combination: str = validation.check_one_of(
            OWNER, "combination", combination, ("flat", "hierarchical")
        )
        self.sentinel: bool = bool(sentinel)
        self.context_dim: int | None = context_dim
        if context_dim is not None:
            validation.check_positive_int(OWNER, "context_dim", context_dim)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)
        self.scorer: Scorer = self._make_scorer(0)
        self.source_scorers: list[Scorer] = []
        if combination == "hierarchical":
            self.source_scorers = [self._make_scorer(1 + k) for k in range(self.num_sources)]

    def _make_scorer(self, index):
        return AdditiveScorer(
            self.units,
            use_bias=False,
            kernel_initializer=derive_initializer(self.kernel_initializer, 2 * index),
            vector_initializer=derive_initializer(self.vector_initializer, index),
            dtype=self.dtype_policy,
        )

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self._check_shapes(query_shape, value_shape, key_shape or value_shape)
        vectors_shape = self._get_vectors_shape(value_shape)
        for scorer in (self.scorer, *self.source_scorers):
            if not scorer.built:
                scorer.build(query_shape, vectors_shape)
        super().build(query_shape, value_shape, key_shape)
        query_dim, context_dim = query_shape[-1], self._context_dim(query_shape, value_shape)
        self.context_kernel: keras.Variable = self._add_kernel(
            0, "context_kernel", vectors_shape[-1], context_dim
        )
        if self.sentinel:
            self.sentinel_gate: keras.Variable = self._add_kernel(
                1, "sentinel_gate", query_dim, query_dim
            )
            self.sentinel_key_kernel: keras.Variable = self._add_kernel(
                2, "sentinel_key_kernel", query_dim, self.units
            )
            self.sentinel_context_kernel: keras.Variable = self._add_kernel(
                3, "sentinel_context_kernel", query_dim, context_dim
            )

    def _add_kernel(self, index, name, *shape):
        index += 2 * (1 + self.num_sources)  # behind those of the scorers
        return self.add_weight(shape, derive_initializer(self.kernel_initializer, index), name=name)

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the outputs besides context and weights."""
        return ("sentinel",) if self.sentinel else ()

    def prepare(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the part that depends on the sources alone, to be passed to `attend`.

        Returns:
            A dict with `key`, the prepared keys, `value`, the projected values
            `(batch, key, context_dim)`, and `mask`, boolean `(batch, key)`; if hierarchical also
            `summary`, the values projected to be compared as contexts, `(batch, key, units)`, and
            `source_mask`, the mask of each source, boolean `(batch, sources, key)`.
        """
        value, key, mask = self._mask_source(value, key, value_mask, key_mask)
        (value, is_source), (key, _) = (split_memory(one, self.num_sources) for one in (value, key))
        prepared = {"value": apply_dense(value, self.context_kernel), "mask": mask}
        if self.combination == "flat":
            return {**prepared, "key": self.scorer.prepare(key)}
        return {
            **prepared,
            "key": [scorer.prepare(key) for scorer in self.source_scorers],
            "summary": self.scorer.prepare(value),
            "source_mask": ops.logical_and(mask[:, None, :], ops.swapaxes(is_source, 1, 2)),
        }

    def _compute_context(self, query, prepared, request):
        combine = self._combine_flat if self.combination == "flat" else self._combine_hierarchical
        sentinel = None
        if self.sentinel:
            sentinel = ops.sigmoid(apply_dense(query, self.sentinel_gate)) * query
        weights, sentinel_weight = combine(query, prepared, request, sentinel)
        context = ops.matmul(self._apply_dropout(weights, request), prepared["value"])
        if not self.sentinel:
            return context, weights, {}
        context = context + sentinel_weight * apply_dense(sentinel, self.sentinel_context_kernel)
        return context, weights, {"sentinel": ops.cast(sentinel_weight[..., 0], "float32")}

    def _combine_flat(self, query, prepared, request, sentinel):
        scores = self._score(self.scorer, query, prepared["key"], request)
        mask = self._score_mask(scores, request)
        return self._compare_with_sentinel(scores, mask, query, sentinel)

    def _combine_hierarchical(self, query, prepared, request, sentinel):
        alphas, masks = [], []
        for index, scorer in enumerate(self.source_scorers):
            scores = self._score(scorer, query, prepared["key"][index], request)
            mask = ops.broadcast_to(prepared["source_mask"][:, None, index], get_shape(scores))
            masks.append(combine_masks(mask, self._score_mask(scores, request)))
            alphas.append(ops.cast(self.normalizer(scores, mask=masks[-1]), self.compute_dtype))
        alphas = ops.stack(alphas, axis=2)  # (batch, query, source, key)
        summaries = ops.einsum("bqsk,bku->bqsu", alphas, prepared["summary"])
        scores = self._score_summaries(query, summaries)
        mask = ops.stack([ops.any(one, axis=-1) for one in masks], axis=-1)
        betas, sentinel_weight = self._compare_with_sentinel(scores, mask, query, sentinel)
        return ops.einsum("bqs,bqsk->bqk", betas, alphas), sentinel_weight

    def _score(self, scorer, query, prepared_key, request):
        score = scorer.score if request.has_all_queries else scorer.score_step
        scores = score(query, prepared_key)
        return scores if request.attention_bias is None else request.add_bias(scores)

    def _score_summaries(self, query, summaries):
        """Returns `v . tanh(W s + summary)` for summaries `(batch, query, source, units)`."""
        hidden = ops.tanh(self.scorer.project_query(query)[:, :, None] + summaries)
        return ops.einsum("bqsu,u->bqs", hidden, self.scorer.scoring_vector())

    def _compare_with_sentinel(self, scores, mask, query, sentinel):
        """Returns the weights of the scores, and the sentinel's `(batch, query, 1)`, or None."""
        if sentinel is None:
            return ops.cast(self.normalizer(scores, mask=mask), self.compute_dtype), None
        summary = apply_dense(sentinel, self.sentinel_key_kernel)[:, :, None]
        scores, score = map(at_least_float32, (scores, self._score_summaries(query, summary)))
        if mask is not None:
            mask = ops.concatenate([mask, ops.any(mask, axis=-1, keepdims=True)], axis=-1)
        weights = self.normalizer(ops.concatenate([scores, score], axis=-1), mask=mask)
        weights = ops.cast(weights, self.compute_dtype)
        return weights[..., :-1], weights[..., -1:]

    def _get_vectors_shape(self, shape):
        """Returns the shape of a memory without the numbers that name the source."""
        validation.check_axes(OWNER, "value", shape, "(batch, key, value_dim)")
        if shape[-1] <= self.num_sources:
            raise ValueError(
                f"{OWNER} expects `value` to be the memory that `ConcatenateSources` makes of "
                f"{self.num_sources} sources, wider than {self.num_sources}. "
                f"Received: value.shape={tuple(shape)}"
            )
        return (*tuple(shape)[:-1], shape[-1] - self.num_sources)

    def _check_shapes(self, query_shape, value_shape, key_shape):
        value_shape, key_shape = map(self._get_vectors_shape, (value_shape, key_shape))
        super()._check_shapes(query_shape, value_shape, key_shape)
        hint = "The keys are laid out as the values."
        validation.check_same_size(OWNER, 2, hint, value=value_shape, key=key_shape)

    def _context_dim(self, query_shape, value_shape):
        return self.context_dim or self.units

    def get_config(self) -> Config:
        names = ("units", "num_sources", "combination", "sentinel", "context_dim")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "dropout": self.dropout,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "seed": self.seed,
        }
