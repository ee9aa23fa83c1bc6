"""Base class of the additive scorers: one hidden tanh layer over query and key.

    score(q, k_j) = v . tanh(W q + U k_j + f_j + b)

f_j is an extra feature term that a subclass adds for key j; `AdditiveScorer` adds none. Code
name -> name above: `query_kernel` -> W, `key_kernel` -> U, `vector` -> v, `features` -> f.
"""

from typing import Unpack

from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.scorers.base import Scorer


class TanhScorer(Scorer):
    """Projects query and key to a common width and owns the scoring vector; abstract.

    A subclass defines `score`. If it uses features, it adds their weights in `build_features`
    and derives its kernel initializers with indices from 2 on.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.units = validation.check_positive_int(type(self).__name__, "units", units)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.query_kernel = self._add_kernel(0, "query_kernel", query_shape[-1], self.units)
        self.key_kernel = self._add_kernel(1, "key_kernel", key_shape[-1], self.units)
        self.build_features()
        # A column vector, so that initializers based on fan-in see (units, 1).
        self.vector = self.add_weight((self.units, 1), self.vector_initializer, name="vector")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")
        self.built = True

    def _add_kernel(self, index, name, *shape):
        return self.add_weight(shape, derive_initializer(self.kernel_initializer, index), name=name)

    def build_features(self) -> None:
        """Adds the weights of the features, if the scorer has any."""

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns `U k_j + b`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        projected = ops.einsum("bkd,du->bku", key, self.cast_weight(self.key_kernel))
        return projected if self.bias is None else projected + self.cast_weight(self.bias)

    def project_query(self, query: TensorLike) -> Tensor:
        """Returns `W q`, of shape `(batch, query, units)`."""
        query = ops.cast(query, self.compute_dtype)
        return ops.einsum("bqd,du->bqu", query, self.cast_weight(self.query_kernel))

    def scoring_vector(self) -> Tensor:
        """Returns `v`, of shape `(units,)`."""
        return self.cast_weight(self.vector)[:, 0]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
