"""Concat scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    score(h_t, hs_s) = v_a . tanh(W_a [h_t; hs_s])                equation 8

Code name -> paper name: `query` -> h_t, `key` -> hs_s, `kernel` -> W_a (its first rows
multiply the query), `vector` -> v_a. The first version of the paper had neither v_a nor tanh.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.kernels.blocked_additive import BLOCKWISE_CHOICES
from keras_attention.scorers.additive import additive_scores, dense_additive_scores
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class ConcatScorer(Scorer):
    """Scores the concatenation of query and key by one hidden layer, as in Luong et al.

    It is `AdditiveScorer` without a bias, with both projections in one kernel:
    `W_a = [W U]`. It never builds the concatenated pairs: each part of the kernel multiplies
    its side once.

    Args:
        units: Positive int, the size of the hidden layer, or None for the width of the
            query, as in the paper.
        kernel_initializer: Initializer of the kernel `(query_dim + key_dim, units)`.
        vector_initializer: Initializer of the vector `(units, 1)`.
        blockwise: "auto", True or False, whether to compute the scores block by block; see
            `AdditiveScorer`.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is neither None nor a positive int, or `blockwise` is not one of
            the values above.

    Example:

    >>> scorer = ConcatScorer(units=8)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 8.
    """

    def __init__(
        self,
        units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        blockwise: bool | str = "auto",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        hint = "None uses the width of the query."
        self.units: int | None = (
            None
            if units is None
            else validation.check_positive_int("ConcatScorer", "units", units, hint)
        )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)
        self.blockwise: bool | str = validation.check_one_of(
            "ConcatScorer", "blockwise", blockwise, BLOCKWISE_CHOICES
        )

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        units = self.units or query_shape[-1]
        self.query_dim: int | None = query_shape[-1]
        self.kernel: keras.Variable = self.add_weight(
            (query_shape[-1] + key_shape[-1], units), self.kernel_initializer, name="kernel"
        )
        self.vector: keras.Variable = self.add_weight(
            (units, 1), self.vector_initializer, name="vector"
        )
        self.built = True

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns the key's part of `W_a [h; hs]`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        kernel = self.cast_weight(self.kernel)[self.query_dim :]
        return ops.einsum("bkd,du->bku", ops.cast(key, self.compute_dtype), kernel)

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        query, vector = self.project_query(query), self.cast_weight(self.vector)[:, 0]
        return additive_scores(query, prepared, vector, self.blockwise)

    def score_step(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        if self.blockwise is True:
            return self.score(query, prepared)
        query, vector = self.project_query(query), self.cast_weight(self.vector)[:, 0]
        return dense_additive_scores(query, prepared, vector)

    def project_query(self, query: TensorLike) -> Tensor:
        """Returns the query's part of `W_a [h; hs]`, of shape `(batch, query, units)`."""
        kernel = self.cast_weight(self.kernel)[: self.query_dim]
        return ops.einsum("bqd,du->bqu", ops.cast(query, self.compute_dtype), kernel)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "blockwise": self.blockwise,
        }
