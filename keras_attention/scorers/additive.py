"""Additive scores, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j + b)                  appendix A.1.2

Code name -> paper name: `query` -> s_{i-1}, `key` -> h_j, `query_kernel` -> W_a,
`key_kernel` -> U_a, `vector` -> v_a, `scores` -> e_ij. The paper has no bias.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.blocks import choose
from keras_attention.scorers.blocked_additive import (
    CHOICES,
    are_worthwhile,
    blocked_additive_scores,
)
from keras_attention.scorers.tanh_scorer import TanhScorer
from keras_attention.shapes import reshape


def additive_scores(query, key, vector, blocked="auto", features=None):
    """Returns `vector . tanh(query + key + features)` for every pair of a query and a key.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        blocked: Whether the pairs are computed a few at a time: True, False or "auto".
        features: Optional float tensor `(batch, query, key, units)`; with it the pairs are
            always computed at once.

    Returns:
        Scores `(batch, query, key)`.
    """
    if features is not None or not blocked:
        return scores_at_once(query, key, vector, features)
    worthwhile, forward = True, None
    if blocked == "auto":
        worthwhile, forward = are_worthwhile(query, key), scores_at_once
    scores = choose(
        worthwhile,
        lambda: blocked_additive_scores(query, key, vector, forward),
        lambda: scores_at_once(query, key, vector),
    )
    return reshape(scores, (*ops.shape(query)[:2], ops.shape(key)[1]))  # tells known sizes


def scores_at_once(query, key, vector, features=None):
    """Returns the scores from the array of all pairs, `(batch, query, key, units)`."""
    pairs = query[:, :, None, :] + key[:, None, :, :]
    pairs = pairs if features is None else pairs + features
    return ops.einsum("bqku,u->bqk", ops.tanh(pairs), vector)


@keras.saving.register_keras_serializable(package="keras_attention")
class AdditiveScorer(TanhScorer):
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
        super().__init__(
            units, use_bias, kernel_initializer, vector_initializer, bias_initializer, **kwargs
        )
        self.blocked = checks.one_of(type(self).__name__, "blocked", blocked, CHOICES)

    def score(self, query, prepared, previous_weights=None):
        return self._score(query, prepared, self.blocked)

    def score_step(self, query, prepared, previous_weights=None):
        return self._score(query, prepared, self.blocked is True)

    def _score(self, query, prepared, blocked):
        query, vector = self.project_query(query), self.scoring_vector()
        return additive_scores(query, prepared, vector, blocked)

    def get_config(self):
        return {**super().get_config(), "blocked": self.blocked}
