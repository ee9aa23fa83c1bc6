"""Dot-product scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025) and, scaled by
the square root of the width, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    dot:         score(q, k) = q . k                              Luong, section 3.1
    scaled dot:  score(q, k) = q . k / sqrt(d_k)                  Vaswani, equation 1

Code name -> paper name: `query` -> h_t (Q), `key` -> hs_s (K).
"""

import keras
from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.scorers.base import Scorer


def dot_scores(query: TensorLike, key: TensorLike) -> Tensor:
    """Returns `q . k` for every query and key of the same batch element."""
    return ops.einsum("bqd,bkd->bqk", query, key)


@keras.saving.register_keras_serializable(package="keras_attention")
class DotScorer(Scorer):
    """Scores a key by its dot product with the query; it has no weights.

    Use it if query and key already share one space of moderate width. Long vectors give large
    scores that saturate a softmax: see `ScaledDotScorer`.

    Call arguments:
        query: Float tensor of shape `(batch, query, dim)` or `(batch, dim)`.
        key: Float tensor of shape `(batch, key, dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If query and key differ in width or have the wrong rank.

    Example:

    >>> scorer = DotScorer()
    >>> scores = scorer(keras.ops.array([[[1.0, 0.0, 2.0]]]), keras.ops.array([[[1.0, 2.0, 0.0]]]))
    >>> float(scores[0, 0, 0])
    1.0

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    requires_equal_dims = True

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        return dot_scores(self.query_for_dot(query), prepared)

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        return ops.cast(query, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class ScaledDotScorer(Scorer):
    """Scores a key by its dot product with the query, divided by the root of the width.

    Use it for wide queries and keys: the scaling keeps the variance of the scores equal to
    that of their entries. The scale depends on the **width** of the key, never on a length.

    Call arguments:
        query: Float tensor of shape `(batch, query, dim)` or `(batch, dim)`.
        key: Float tensor of shape `(batch, key, dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If query and key differ in width or have the wrong rank.

    Example:

    >>> scorer = ScaledDotScorer()
    >>> scores = scorer(keras.ops.ones((2, 3, 16)), keras.ops.ones((2, 5, 16)))
    >>> tuple(scores.shape), float(scores[0, 0, 0])
    ((2, 3, 5), 4.0)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 1.
    """

    requires_equal_dims = True

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        return dot_scores(self.query_for_dot(query), prepared)

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        # Scaling the query instead of the scores needs fewer products and avoids overflow in
        # float16. Query and key have the same width.
        scale = float(query.shape[-1]) ** -0.5
        return ops.cast(query, self.compute_dtype) * scale
