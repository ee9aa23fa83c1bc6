"""Queries that nobody provides: weights, as in Lin et al. 2017 (https://arxiv.org/abs/1703.03130)."""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.layer import Layer


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedQueries(Layer):
    """Query vectors that are weights, the same for every row of a batch.

    Use it in front of a mechanism whose queries nobody provides.

    Args:
        num_queries: Positive int.
        units: Positive int, the width of a query.
        initializer: Initializer of the queries.

    Call arguments:
        inputs: Tensor `(batch, ...)`; only its batch size is read.

    Returns:
        Queries `(batch, num_queries, units)` in the compute dtype.

    Raises:
        ValueError: If `num_queries` or `units` is not a positive int.

    Masking: reads no mask and passes none on.

    Example:

    >>> tuple(LearnedQueries(num_queries=3, units=4)(keras.ops.ones((2, 5, 7))).shape)
    (2, 3, 4)
    """

    def __init__(self, num_queries, units, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_queries = checks.positive_int("LearnedQueries", "num_queries", num_queries)
        self.units = checks.positive_int("LearnedQueries", "units", units)
        self.initializer = initializers.get(initializer)

    def build(self, inputs_shape):
        self.queries = self.add_weight(
            (self.num_queries, self.units), self.initializer, name="queries"
        )
        self.built = True

    def call(self, inputs):
        queries = ops.convert_to_tensor(self.queries, dtype=self.compute_dtype)
        shape = (ops.shape(inputs)[0], self.num_queries, self.units)
        return ops.broadcast_to(queries[None], shape)

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], self.num_queries, self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "num_queries": self.num_queries,
            "units": self.units,
            "initializer": initializers.serialize(self.initializer),
        }
