"""Monotonic chunkwise attention (MoChA), Chiu and Raffel 2018 (https://arxiv.org/abs/1712.05382).

    a_ij = the weights of monotonic attention at key j            see `normalizers.monotonic`
    b_ij = sum_{k=j}^{j+w-1} a_ik exp(u_ij) / sum_{l=k-w+1}^{k} exp(u_il)      section 2.3

Attention stops at key k with the weight a_ik and attends softly to the w keys that end there. Code
name -> paper name: `stop_weights` -> a, `chunk_scores` -> u, `chunk_size` -> w, `weights` -> b.
The paper computes b by moving sums of exp(u) (equations 22 and 23). Here each sum over a chunk is a
log-sum-exp, so that no denominator underflows.
"""

import dataclasses
from typing import Unpack

import keras
from keras import ops

from keras_attention import scorers, validation
from keras_attention._utils.dtypes import at_least_float32, wide_dtype
from keras_attention._utils.neighbor_keys import first_key_weights, gather_neighbors
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention._request import combine_masks, refuse_attention_bias
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers import MonotonicNormalizer
from keras_attention.normalizers._masking import MASKED_SCORE, apply_mask, mask_scores
from keras_attention.scorers.base import Scorer


def chunkwise_weights(
    stop_weights: TensorLike, chunk_scores: TensorLike, chunk_size: int
) -> Tensor:
    """Returns the weights b, the expected softmax of the chunk that ends where attention stops.

    Args:
        stop_weights: Float tensor `(..., key)`, the weights a of monotonic attention.
        chunk_scores: Float tensor `(..., key)` with MASKED_SCORE at masked keys.
        chunk_size: Int, the number of keys of a chunk.
    """
    chunks = gather_neighbors(chunk_scores, chunk_size - 1, 0, MASKED_SCORE)
    denominators = ops.logsumexp(chunks, axis=-1)
    # For every key, the chunks that contain it: those that end there or up to w - 1 keys later.
    stops = gather_neighbors(stop_weights, 0, chunk_size - 1)
    denominators = gather_neighbors(denominators, 0, chunk_size - 1)
    # Beyond the end, where the stop weight is 0, the difference may be positive.
    logs = ops.minimum(chunk_scores[..., None] - denominators, 0)
    return ops.sum(stops * ops.exp(logs), axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class MonotonicChunkwiseAttention(AttentionMechanism):
    """Attention to a chunk of keys whose end only moves forward.

    Use it if source and target are in the same order, as in speech, but a single key at a time, as
    in monotonic attention, is too little. With a normalizer of mode "hard" the keys can be consumed
    as a stream. `AttentionRNN` carries the weights of the places where attention stops. In a direct
    call without `previous_weights` the queries are steps in time, see `MonotonicNormalizer`.

    Args:
        chunk_size: Positive int, the number of keys of a chunk. 1 is monotonic attention.
        scorer: The scores that select where to stop: a `Scorer`, or the name of one without
            required arguments; see `Attention`. It must not read earlier weights.
        chunk_scorer: The scores of the keys of a chunk, likewise.
        normalizer: A `MonotonicNormalizer`, or "monotonic". Mode "parallel" or "recursive" trains
            the expected weights, mode "hard" stops at one key and is for trained models.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`. `previous_weights` are the
        weights of the places where attention stopped. It refuses `attention_bias`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`. The weights sum to at most 1.

    State of steps: `stop_weights` `(batch, query, key)`, at least float32.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: as in every mechanism; attention never stops at a masked key. A chunk has the unmasked
        keys among its `chunk_size` positions.

    Example:

    >>> attention = MonotonicChunkwiseAttention(
    ...     2, "dot", "dot", normalizer=MonotonicNormalizer(mode="hard")
    ... )
    >>> query, value = keras.ops.ones((1, 1, 1)), keras.ops.array([[[-1.0], [-1.0], [1.0]]])
    >>> context, weights = attention(query, value, return_attention_scores=True)
    >>> [round(float(weight), 3) for weight in weights[0, 0]]  # stops at the third key
    [0.0, 0.119, 0.881]

    Reference: Chiu and Raffel 2018, https://arxiv.org/abs/1712.05382, section 2.3.
    """

    def __init__(
        self,
        chunk_size: int,
        scorer: str | Scorer | Config,
        chunk_scorer: str | Scorer | Config,
        normalizer: str | MonotonicNormalizer | Config = "monotonic",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "MonotonicChunkwiseAttention"
        self.chunk_size: int = validation.check_positive_int(owner, "chunk_size", chunk_size)
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)
        self.chunk_scorer: Scorer = scorers.get(chunk_scorer, dtype=self.dtype_policy)
        if self.chunk_scorer is self.scorer:
            raise ValueError(
                f"{owner} expects two scorers. Create each one separately. "
                f"Received: scorer=chunk_scorer={scorer!r}"
            )
        if not isinstance(self.normalizer, MonotonicNormalizer):
            raise ValueError(
                f"{owner} expects `normalizer` to be a `MonotonicNormalizer`. "
                f"Received: normalizer={normalizer!r}"
            )
        for name in ("scorer", "chunk_scorer"):
            if getattr(self, name).reads_weights is not None:
                raise ValueError(
                    f"{owner} carries the weights of the places where attention stops, and expects "
                    f"`{name}` not to read earlier weights. Use, for example, `AdditiveScorer`. "
                    f"Received: {name}={type(getattr(self, name)).__name__}"
                )

    @property
    def reads_weights(self) -> None:
        """None: the earlier weights in use are part of the state."""
        return None

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if not self.chunk_scorer.built:
            self.chunk_scorer.build(query_shape, key_shape or value_shape)

    def state_sizes(self, num_keys: Size | None) -> dict[str, Size | None]:
        return {"stop_weights": num_keys}

    def initial_state(self, batch: Size, num_keys: Size) -> TensorDict:
        first = first_key_weights(batch, num_keys, wide_dtype(self.compute_dtype))
        return {"stop_weights": first}

    def prepare(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns `key` and `chunk_key`, as both scorers prepare them, `value` and `mask`."""
        value, key, mask = self._mask_source(value, key, value_mask, key_mask)
        keys = {"key": self.scorer.prepare(key), "chunk_key": self.chunk_scorer.prepare(key)}
        return {**keys, "value": value, "mask": mask}

    def _compute_context(self, query, prepared, request):
        num_keys = get_shape(prepared["mask"])[1]
        scores, chunk_scores = (
            self._score(scorer, query, prepared[name], num_keys, request)
            for scorer, name in ((self.scorer, "key"), (self.chunk_scorer, "chunk_key"))
        )
        if request.state is not None:
            previous_weights = request.state["stop_weights"]
            request = dataclasses.replace(request, previous_weights=previous_weights)
        stop_weights = self.compute_weights(scores, request)
        valid = self.chunk_scorer.valid_keys(num_keys)
        mask = combine_masks(self._score_mask(scores, request), valid)
        chunk_scores = mask_scores(at_least_float32(chunk_scores), mask)
        wide = ops.cast(stop_weights, chunk_scores.dtype)
        weights = apply_mask(chunkwise_weights(wide, chunk_scores, self.chunk_size), mask)
        weights = ops.cast(weights, self.compute_dtype)
        context = ops.matmul(self._apply_dropout(weights, request), prepared["value"])
        return context, weights, {} if request.state is None else {"stop_weights": wide}

    def _score(self, scorer, query, key, num_keys, request):
        """Returns the checked scores of one scorer."""
        score = scorer.score if request.has_all_queries else scorer.score_step
        scores = score(query, key)
        scorer.check_scores(scores, query, num_keys if isinstance(num_keys, int) else None)
        return scores

    def _check_bias(self, query, num_keys, attention_bias):
        refuse_attention_bias("MonotonicChunkwiseAttention", attention_bias)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "chunk_size": self.chunk_size,
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "chunk_scorer": keras.saving.serialize_keras_object(self.chunk_scorer),
            **self.get_pieces_config(),
        }
