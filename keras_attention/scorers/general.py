"""General scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    score(h_t, hs_s) = h_t^T W_a hs_s                             section 3.1

Code name -> paper name: `query` -> h_t, `key` -> hs_s, `kernel` -> W_a.
"""

from typing import Unpack

import keras
from keras import initializers, ops

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


@keras.saving.register_keras_serializable(package="keras_attention")
class GeneralScorer(Scorer):
    """Scores a key by a learned bilinear form with the query, `q^T W k`.

    Use it to compare a query and a key of different widths or from different spaces. There is
    no bias: a biased projection would add a term `b . k` and be a different score. The key is
    projected once per source.

    Args:
        kernel_initializer: Initializer of the kernel `(query_dim, key_dim)`.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If a shape has the wrong rank.

    Example:

    >>> scorer = GeneralScorer()
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    def __init__(
        self, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.kernel: keras.Variable = self.add_weight(
            (query_shape[-1], key_shape[-1]), self.kernel_initializer, name="kernel"
        )
        self.built = True

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns `W_a hs_s`, of shape `(batch, key, query_dim)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        return ops.einsum("bkd,qd->bkq", key, self.cast_weight(self.kernel))

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        return dot_scores(self.query_for_dot(query), prepared)

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        return ops.cast(query, self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
