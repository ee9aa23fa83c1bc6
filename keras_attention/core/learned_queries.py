"""Learned queries, as in Lin et al. 2017 (https://arxiv.org/abs/1703.03130)."""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Tensor,
    TensorLike,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedQueries(Layer):
    """Learned query vectors, the same for every batch element.

    Use it to attend without an input as query, for example with `MultiQueryPooling`.

    Args:
        num_queries: Positive int.
        units: Positive int, the width of a query.
        initializer: Initializer of the queries.

    Call arguments:
        inputs: Tensor `(batch, ...)`; only its batch size is used.

    Returns:
        Queries `(batch, num_queries, units)` in the compute dtype.

    Raises:
        ValueError: If `num_queries` or `units` is not a positive int.

    Masking: ignores masks and propagates none.

    Example:

    >>> tuple(LearnedQueries(num_queries=3, units=4)(keras.ops.ones((2, 5, 7))).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        num_queries: int,
        units: int,
        initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_queries: int = validation.check_positive_int(
            "LearnedQueries", "num_queries", num_queries
        )
        self.units: int = validation.check_positive_int("LearnedQueries", "units", units)
        self.initializer: InitializerFunction = initializers.get(initializer)

    def build(self, inputs_shape: Shape) -> None:
        self.queries: keras.Variable = self.add_weight(
            (self.num_queries, self.units), self.initializer, name="queries"
        )
        self.built = True

    def call(self, inputs: Tensor) -> TensorLike:
        queries = ops.convert_to_tensor(self.queries, dtype=self.compute_dtype)
        shape = (get_shape(inputs)[0], self.num_queries, self.units)
        return ops.broadcast_to(queries[None], shape)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        return (inputs_shape[0], self.num_queries, self.units)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_queries": self.num_queries,
            "units": self.units,
            "initializer": initializers.serialize(self.initializer),
        }
