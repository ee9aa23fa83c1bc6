"""Additive scores, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j + b)                  appendix A.1.2

Code name -> paper name: `query` -> s_{i-1}, `key` -> h_j, `query_kernel` -> W_a,
`key_kernel` -> U_a, `vector` -> v_a, `scores` -> e_ij. The paper has no bias.
"""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import independent
from keras_attention.scorers.base import Scorer
from keras_attention.scorers.blocked_additive import CHOICES, blocked_additive_scores, pays


def additive_scores(query, key, vector, blocked="auto"):
    """Returns `vector . tanh(query + key)` for every pair of a query and a key.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        blocked: Whether the pairs are computed a few at a time: True, False or "auto".

    Returns:
        Scores `(batch, query, key)`.
    """
    if blocked is True or (blocked == "auto" and pays(query.shape, key.shape)):
        return blocked_additive_scores(query, key, vector)
    pairs = ops.tanh(query[:, :, None, :] + key[:, None, :, :])  # (batch, query, key, units)
    return ops.einsum("bqku,u->bqk", pairs, vector)


@keras.saving.register_keras_serializable(package="keras_attention")
class AdditiveScorer(Scorer):
    """Scores keys by a small network over query and key, as Bahdanau et al. do.

    Use it where query and key differ in size, or where dot products of long vectors
    would saturate the normalizer. The key is projected once a source (`prepare`), the
    query once a step. By blocks it needs memory for the scores and takes the time of
    `query * key * units` quotients; otherwise it holds `query * key * units` numbers.

    Args:
        units: Positive int, the size both sides are projected to.
        use_bias: Whether a bias is added inside the tanh. The paper has none.
        kernel_initializer: Initializer of both projections. RNNsearch starts them
            at `RandomNormal(stddev=0.001)`.
        vector_initializer: Initializer of the vector that turns units into a score.
            RNNsearch starts it at zero, which makes the first weights uniform.
        bias_initializer: Initializer of the bias.
        blocked: "auto" computes the scores by blocks, forward and backward, where the pairs
            would take more than 16 MB or a length is unknown, except for a single query; True
            always does and False never. The numbers are the same. Blocks are fastest under XLA
            and have no second derivative.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is not a positive int, `blocked` is another word, or a shape has
            another rank.

    Masking: reads no mask and passes none on; the normalizer applies it.

    Example:

    >>> scorer = AdditiveScorer(units=8)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.2.
    """

    def __init__(
        self,
        units,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        bias_initializer="zeros",
        blocked="auto",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = checks.positive_int(type(self).__name__, "units", units)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.blocked = checks.one_of(type(self).__name__, "blocked", blocked, CHOICES)

    def build(self, query_shape, key_shape):
        self.check_shapes(query_shape, key_shape)
        self.query_kernel = self.add_weight(
            (query_shape[-1], self.units), self.kernel_initializer, name="query_kernel"
        )
        self.key_kernel = self.add_weight(
            (key_shape[-1], self.units), independent(self.kernel_initializer, 1), name="key_kernel"
        )
        # A column, so that an initializer that reads fans sees (units, 1).
        self.vector = self.add_weight((self.units, 1), self.vector_initializer, name="vector")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")
        self.built = True

    def prepare(self, key):
        """Returns `U_a h_j + b`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        projected = ops.einsum("bkd,du->bku", key, self.cast_weight(self.key_kernel))
        return projected if self.bias is None else projected + self.cast_weight(self.bias)

    def score(self, query, prepared, previous_weights=None):
        query = ops.cast(query, self.compute_dtype)
        projected = ops.einsum("bqd,du->bqu", query, self.cast_weight(self.query_kernel))
        vector = self.cast_weight(self.vector)[:, 0]
        return additive_scores(projected, prepared, vector, self.blocked)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "blocked": self.blocked,
        }
