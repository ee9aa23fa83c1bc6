"""Bilinear scores with a full or a low-rank matrix.

    bilinear:            score(q, k) = k^T W q
    low-rank bilinear:   score(q, k) = (U k) . (V q),  W = U^T V

The first is Luong's general score with the matrix transposed (https://arxiv.org/abs/1508.04025,
section 3.1); the second factors it, with `rank` rows in U and V.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.dot import dot_scores
from keras_attention.scorers.general import GeneralScorer


@keras.saving.register_keras_serializable(package="keras_attention")
class BilinearScorer(GeneralScorer):
    """Scores a key by a learned bilinear form with the query, `k^T W q`.

    It equals `GeneralScorer` with the matrix transposed, `W = W_a^T`. Use it to follow
    papers that write the form this way, or to load weights trained this way.

    Args:
        kernel_initializer: Initializer of the kernel `(key_dim, query_dim)`.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If a shape has the wrong rank.

    Example:

    >>> scorer = BilinearScorer()
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.kernel: keras.Variable = self.add_weight(
            (key_shape[-1], query_shape[-1]), self.kernel_initializer, name="kernel"
        )
        self.built = True

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns `k^T W`, of shape `(batch, key, query_dim)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        return ops.einsum("bkd,dq->bkq", key, self.cast_weight(self.kernel))


@keras.saving.register_keras_serializable(package="keras_attention")
class LowRankBilinearScorer(Scorer):
    """Scores a key by a low-rank bilinear form: the dot product of two projections.

    Use it for wide queries and keys, where a full matrix would have too many weights:
    `rank * (query_dim + key_dim)` instead of `query_dim * key_dim`.

    Args:
        rank: Positive int, at most the smaller of the two widths.
        kernel_initializer: Initializer of both projections.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `rank` is not a positive int, or exceeds a width.

    Example:

    >>> scorer = LowRankBilinearScorer(rank=2)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: the factored form of Luong et al. 2015, https://arxiv.org/abs/1508.04025,
    section 3.1.
    """

    def __init__(
        self,
        rank: int,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.rank: int = validation.check_positive_int("LowRankBilinearScorer", "rank", rank)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def check_shapes(self, query_shape: Shape, key_shape: Shape) -> None:
        super().check_shapes(query_shape, key_shape)
        if self.rank > min(query_shape[-1], key_shape[-1]):
            raise ValueError(
                "LowRankBilinearScorer expects `rank` of at most the smaller width; a larger one "
                "adds weights without adding capacity. Use `BilinearScorer` instead. Received: "
                f"rank={self.rank}, query.shape={tuple(query_shape)}, "
                f"key.shape={tuple(key_shape)}"
            )

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.query_kernel: keras.Variable = self.add_weight(
            (query_shape[-1], self.rank), self.kernel_initializer, name="query_kernel"
        )
        self.key_kernel: keras.Variable = self.add_weight(
            (key_shape[-1], self.rank),
            derive_initializer(self.kernel_initializer, 1),
            name="key_kernel",
        )
        self.built = True

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns `U k`, of shape `(batch, key, rank)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        return ops.einsum("bkd,dr->bkr", key, self.cast_weight(self.key_kernel))

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        return dot_scores(self.query_for_dot(query), prepared)

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        query = ops.cast(query, self.compute_dtype)
        return ops.einsum("bqd,dr->bqr", query, self.cast_weight(self.query_kernel))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "rank": self.rank,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
