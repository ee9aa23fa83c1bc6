"""Location scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    a_t = softmax(W_a h_t)                                        equation 9

Code name -> paper name: `query` -> h_t, `kernel` -> W_a, transposed. The paper does not define
the score of a source whose length differs from the number of rows of W_a; ours is below.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorLike,
)
from keras_attention.scorers.base import Scorer

INVALID_SCORE = -1e9  # softmax gives it weight 0 beside any score that occurs
INVALID_SCORE_FLOAT16 = -3e4  # finite in float16


@keras.saving.register_keras_serializable(package="keras_attention")
class LocationScorer(Scorer):
    """Scores source positions from the query alone; of the keys only their number is used.

    A source of S positions uses the first S rows of the matrix, and the normalizer
    renormalizes over them. Positions at or beyond `max_length` get the score -1e9 (-3e4 in
    float16), so that their weight is 0. Attention layers mask them as well, so that the weight
    is 0 even if every earlier position is masked.

    Args:
        max_length: Positive int, the number of source positions that the kernel covers.
        kernel_initializer: Initializer of the kernel `(query_dim, max_length)`.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`; its values are ignored.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `max_length` is not a positive int.

    Example:

    >>> scorer = LocationScorer(max_length=6)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 9.
    """

    reads_positions = True

    def __init__(
        self,
        max_length: int,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.max_length: int = validation.check_positive_int(
            "LocationScorer", "max_length", max_length
        )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.kernel: keras.Variable = self.add_weight(
            (query_shape[-1], self.max_length), self.kernel_initializer, name="kernel"
        )
        self.built = True

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        positions = ops.arange(get_shape(prepared)[1])
        rows = ops.minimum(positions, self.max_length - 1)
        kernel = ops.take(self.cast_weight(self.kernel), rows, axis=1)  # (query_dim, key)
        query = ops.cast(query, self.compute_dtype)
        scores = ops.einsum("bqd,dk->bqk", query, kernel)
        lowest = INVALID_SCORE if self.compute_dtype != "float16" else INVALID_SCORE_FLOAT16
        return ops.where(positions < self.max_length, scores, ops.cast(lowest, scores.dtype))

    def valid_keys(self, num_keys: Size) -> TensorLike | None:
        if isinstance(num_keys, int) and num_keys <= self.max_length:
            return None
        return ops.arange(num_keys) < self.max_length

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
