"""Equal scores for all keys: a baseline without attention.

score(q, k) = 0,   so that a softmax over n unmasked keys gives 1 / n to each
"""

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class UniformScorer(Scorer):
    """Scores every key alike, so that the context is the mean of the unmasked values.

    Use it as a baseline: the same model without the ability to choose keys.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Zeros of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If a shape has the wrong rank.

    Example:

    >>> scorer = UniformScorer()
    >>> float(keras.ops.sum(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4)))))
    0.0
    """

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        shape = (get_shape(query)[0], get_shape(query)[1], get_shape(prepared)[1])
        return ops.zeros(shape, dtype=self.compute_dtype)
