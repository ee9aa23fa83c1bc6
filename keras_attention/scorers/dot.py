"""Dot-product scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025) and, scaled by
the square root of the width, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    dot:         score(q, k) = q . k                              Luong, section 3.1
    scaled dot:  score(q, k) = q . k / sqrt(d_k)                  Vaswani, equation 1

Code name -> paper name: `query` -> h_t (Q), `key` -> hs_s (K).
"""

import keras
from keras import ops

from keras_attention.scorers.base import Scorer


def dot_scores(query, key):
    """Returns `q . k` for every pair of a query and a key of one batch row."""
    return ops.einsum("bqd,bkd->bqk", query, key)


@keras.saving.register_keras_serializable(package="keras_attention")
class DotScorer(Scorer):
    """Scores a key by its dot product with the query; it has no weights.

    Use it where query and key already live in one space of moderate width. Long
    vectors give large scores that saturate a softmax: see `ScaledDotScorer`.

    Call arguments:
        query: Float tensor of shape `(batch, query, dim)` or `(batch, dim)`.
        key: Float tensor of shape `(batch, key, dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If query and key differ in width or have another rank.

    Example:

    >>> scorer = DotScorer()
    >>> scores = scorer(keras.ops.array([[[1.0, 0.0, 2.0]]]), keras.ops.array([[[1.0, 2.0, 0.0]]]))
    >>> float(scores[0, 0, 0])
    1.0

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    same_width = True

    def score(self, query, prepared, previous_weights=None):
        return dot_scores(self.dot_query(query), prepared)

    def dot_query(self, query):
        return ops.cast(query, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class ScaledDotScorer(Scorer):
    """Scores a key by its dot product with the query over the square root of the width.

    Use it for wide queries and keys: the scaling keeps the variance of the scores at
    that of their entries. The scale is the key's **width**, never a sequence length.

    Call arguments:
        query: Float tensor of shape `(batch, query, dim)` or `(batch, dim)`.
        key: Float tensor of shape `(batch, key, dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If query and key differ in width or have another rank.

    Example:

    >>> scorer = ScaledDotScorer()
    >>> scores = scorer(keras.ops.ones((2, 3, 16)), keras.ops.ones((2, 5, 16)))
    >>> tuple(scores.shape), float(scores[0, 0, 0])
    ((2, 3, 5), 4.0)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 1.
    """

    same_width = True

    def score(self, query, prepared, previous_weights=None):
        return dot_scores(self.dot_query(query), prepared)

    def dot_query(self, query):
        # The query is scaled, not the scores: fewer products, and no overflow in float16.
        scale = float(query.shape[-1]) ** -0.5  # query and key are of one width
        return ops.cast(query, self.compute_dtype) * scale
