"""Location-sensitive scores, Chorowski et al. 2015 (https://arxiv.org/abs/1506.07503).

    f_i  = F * a_{i-1}                                            equation 8, a convolution
    e_ij = w . tanh(W s_{i-1} + V h_j + U f_ij + b)               equation 9

Code name -> paper name: `query` -> s_{i-1}, `key` -> h_j, `previous_weights` -> a_{i-1},
`filter_kernel` -> F, `location_kernel` -> U, `query_kernel` -> W, `key_kernel` -> V,
`vector` -> w. As in Keras convolutions, F is not flipped (cross-correlation).
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Tensor,
    TensorLike,
)
from keras_attention.scorers._attention_history_scorer import (
    AttentionHistoryScorer,
    check_odd_kernel_size,
)


def location_features(weights: TensorLike, kernel: TensorLike) -> Tensor:
    """Returns `filters` features of the weights around every position of the last axis.

    Args:
        weights: Float tensor `(batch, query, key)`; it is padded with zeros at both ends.
        kernel: Float tensor `(kernel_size, filters)`; its middle row multiplies the position.

    Returns:
        Float tensor `(batch, query, key, filters)`, at least float32.
    """
    wide = wide_dtype(weights.dtype)
    rows = ops.reshape(ops.cast(weights, wide), (-1, get_shape(weights)[-1], 1))
    kernel = ops.cast(kernel, wide)[:, None, :]
    features = ops.conv(rows, kernel, padding="same", data_format="channels_last")
    return ops.reshape(features, (*get_shape(weights), kernel.shape[-1]))


@keras.saving.register_keras_serializable(package="keras_attention")
class LocationSensitiveScorer(AttentionHistoryScorer):
    """Scores keys like `AdditiveScorer`, with the weights of the previous step as features.

    Use it if the source is long and attended to in order, as in speech: among similar keys,
    the position identifies the one after the last attended key. `AttentionRNN` carries the
    previous weights; a direct call takes them as an argument. The scorer needs
    `query * key * units` memory.

    Args:
        units: Positive int, the width that query and key are projected to.
        filters: Positive int, the number of convolution filters over the previous weights.
        kernel_size: Positive odd int, the number of positions that a centered filter covers.
        use_bias: Whether to add a bias inside the tanh, as the paper does.
        kernel_initializer: Initializer of the projections and of the filters.
        vector_initializer: Initializer of the vector that maps hidden units to a score.
        bias_initializer: Initializer of the bias.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, or `(batch, key)` for
            a query of rank 2: the weights of the previous step. None means zeros.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If a size is not a positive int, `kernel_size` is even, or a shape does
            not fit.

    Masking: ignores masks and propagates none; the normalizer applies the mask.

    Example:

    >>> scorer = LocationSensitiveScorer(units=8, filters=2, kernel_size=3)
    >>> query, key, weights = (keras.ops.ones(s) for s in ((2, 3), (2, 7, 4), (2, 7)))
    >>> tuple(scorer(query, key, weights).shape)
    (2, 7)

    Reference: Chorowski et al. 2015, https://arxiv.org/abs/1506.07503, equations 8 and 9.
    """

    reads_weights = "previous"

    def __init__(
        self,
        units: int,
        filters: int,
        kernel_size: int,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units, use_bias, kernel_initializer, vector_initializer, bias_initializer, **kwargs
        )
        owner = type(self).__name__
        self.filters: int = validation.check_positive_int(owner, "filters", filters)
        self.kernel_size: int = check_odd_kernel_size(owner, kernel_size)

    def build_features(self) -> None:
        self.filter_kernel: keras.Variable = self._add_kernel(
            2, "filter_kernel", self.kernel_size, self.filters
        )
        self.location_kernel: keras.Variable = self._add_kernel(
            3, "location_kernel", self.filters, self.units
        )

    def features(self, previous_weights: Tensor) -> TensorLike:
        features = location_features(previous_weights, self.cast_weight(self.filter_kernel))
        features = ops.cast(features, self.compute_dtype)
        return ops.einsum("bqkf,fu->bqku", features, self.cast_weight(self.location_kernel))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
        }
