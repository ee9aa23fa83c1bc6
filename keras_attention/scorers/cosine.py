"""Cosine and content-based scores, Graves et al. 2014 (https://arxiv.org/abs/1410.5401).

    cosine:   K[q, k] = q . k / (|q| |k|)                         equation 6
    content:  score(q, k) = beta K[q, k],  beta > 0 a query       equation 5

Code name -> paper name: `query` -> k_t, `key` -> M_t(i), `strength` -> beta_t.
"""

import keras
from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.dot import dot_scores

EPSILON = 1e-12


def unit_vectors(vectors: TensorLike) -> Tensor:
    """Returns `vectors` scaled to length 1; a zero vector stays 0, with a finite gradient.

    The sum of squares is float32: in float16 it would overflow at a norm of 256, and the
    epsilon inside the root would vanish.
    """
    vectors = at_least_float32(vectors)
    return vectors * inverse_norms(vectors)[..., None]


def inverse_norms(vectors: TensorLike, axis: int = -1) -> Tensor:
    """Returns 1 / length of every vector; its gradient is finite at a zero vector."""
    return ops.rsqrt(ops.sum(ops.square(vectors), axis=axis) + EPSILON)


@keras.saving.register_keras_serializable(package="keras_attention")
class CosineScorer(Scorer):
    """Scores a key by the cosine of its angle to the query; it has no weights.

    Use it if vector lengths must not matter, for example for content-based addressing of a
    memory. All scores lie in [-1, 1], so a softmax over them stays flat unless `strength`
    sharpens it. The epsilon is inside the root of the norm: an all-zero key scores 0.

    Call arguments:
        query: Float tensor of shape `(batch, query, dim)` or `(batch, dim)`.
        key: Float tensor of shape `(batch, key, dim)`.
        previous_weights: Ignored.
        strength: Optional float tensor `(batch, query)`, or `(batch,)` for a query of
            rank 2: the positive factor beta of content-based addressing.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If query and key differ in width or have the wrong rank.

    Example:

    >>> query = keras.ops.array([[1.0, 0.0, 2.0]])
    >>> key = keras.ops.array([[[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]])
    >>> [round(float(score), 6) for score in CosineScorer()(query, key)[0]]
    [0.632456, 0.0]

    Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, equations 5 and 6.
    """

    requires_equal_dims = True

    def prepare(self, key: Tensor) -> TensorLike:
        self.check_ready(key)
        return ops.cast(unit_vectors(ops.cast(key, self.compute_dtype)), self.compute_dtype)

    def score(
        self,
        query: Tensor,
        prepared: Tensor,
        previous_weights: Tensor | None = None,
        strength: Tensor | None = None,
    ) -> TensorLike:
        scores = dot_scores(self.query_for_dot(query), prepared)
        if strength is None:
            return scores
        return scores * ops.expand_dims(ops.cast(strength, self.compute_dtype), -1)

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        return ops.cast(unit_vectors(ops.cast(query, self.compute_dtype)), self.compute_dtype)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        previous_weights: Tensor | None = None,
        strength: Tensor | None = None,
    ) -> TensorLike:
        self.check_shapes(query.shape, key.shape)
        if len(query.shape) == 3:
            return self.score(query, self.prepare(key), previous_weights, strength)
        if strength is not None:
            strength = ops.expand_dims(strength, 1)
        scores = self.score(ops.expand_dims(query, 1), self.prepare(key), None, strength)
        return ops.squeeze(scores, 1)
