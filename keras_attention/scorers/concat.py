"""Concat scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    score(h_t, hs_s) = v_a . tanh(W_a [h_t; hs_s])                equation 8

Code name -> paper name: `query` -> h_t, `key` -> hs_s, `kernel` -> W_a (its first rows
meet the query), `vector` -> v_a. The first version of the paper left out v_a and tanh.
"""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.scorers.additive import additive_scores
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.blocked_additive import CHOICES


@keras.saving.register_keras_serializable(package="keras_attention")
class ConcatScorer(Scorer):
    """Scores the concatenation of query and key by one hidden layer, as Luong et al. do.

    It is the same function as `AdditiveScorer` without a bias, with both projections in
    one kernel: `W_a = [W U]`. It never builds the concatenated pairs: each part of the
    kernel meets its side once.

    Args:
        units: Positive int, the size of the hidden layer, or None for the width of the
            query, as in the paper.
        kernel_initializer: Initializer of the kernel `(query_dim + key_dim, units)`.
        vector_initializer: Initializer of the vector `(units, 1)`.
        blocked: "auto", True or False, whether the scores are computed by blocks; see
            `AdditiveScorer`.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is neither None nor a positive int, or `blocked` is another word.

    Example:

    >>> scorer = ConcatScorer(units=8)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, equation 8.
    """

    def __init__(
        self,
        units=None,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        blocked="auto",
        **kwargs,
    ):
        super().__init__(**kwargs)
        hint = "None takes the width of the query."
        self.units = (
            None if units is None else checks.positive_int("ConcatScorer", "units", units, hint)
        )
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.blocked = checks.one_of("ConcatScorer", "blocked", blocked, CHOICES)

    def build(self, query_shape, key_shape):
        self.check_shapes(query_shape, key_shape)
        units = self.units or query_shape[-1]
        self.query_dim = query_shape[-1]
        self.kernel = self.add_weight(
            (query_shape[-1] + key_shape[-1], units), self.kernel_initializer, name="kernel"
        )
        self.vector = self.add_weight((units, 1), self.vector_initializer, name="vector")
        self.built = True

    def prepare(self, key):
        """Returns the key's half of `W_a [h; hs]`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        kernel = self.cast_weight(self.kernel)[self.query_dim :]
        return ops.einsum("bkd,du->bku", ops.cast(key, self.compute_dtype), kernel)

    def score(self, query, prepared, previous_weights=None):
        return self._score(query, prepared, self.blocked)

    def score_step(self, query, prepared, previous_weights=None):
        return self._score(query, prepared, self.blocked is True)

    def _score(self, query, prepared, blocked):
        kernel = self.cast_weight(self.kernel)[: self.query_dim]
        query = ops.einsum("bqd,du->bqu", ops.cast(query, self.compute_dtype), kernel)
        vector = self.cast_weight(self.vector)[:, 0]
        return additive_scores(query, prepared, vector, blocked)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "blocked": self.blocked,
        }
