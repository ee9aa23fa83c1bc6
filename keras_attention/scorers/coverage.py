"""Additive scores with coverage, Tu et al. 2016 (https://arxiv.org/abs/1601.04811) in the
form of See et al. 2017 (https://arxiv.org/abs/1704.04368).

    c^t   = sum_{t' < t} a^{t'}                                   See et al., equation 10
    e^t_j = v . tanh(W_h h_j + W_s s_t + w_c c^t_j + b)           equation 11

Code name -> paper name: `query` -> s_t, `key` -> h_j, `previous_weights` -> c^t,
`coverage_vector` -> w_c, `query_kernel` -> W_s, `key_kernel` -> W_h.
"""

import keras

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.scorers._attention_history_scorer import AttentionHistoryScorer


@keras.saving.register_keras_serializable(package="keras_attention")
class CoverageScorer(AttentionHistoryScorer):
    """Scores keys like `AdditiveScorer`, with the attention that each key received before.

    Use it if a decoder repeats itself or skips parts of the source: the sum of all earlier
    weights shows which parts it has covered. `AttentionRNN` carries that sum; a direct call
    takes it as an argument. The scorer needs `query * key * units` memory.

    Args:
        units: Positive int, the width that query and key are projected to.
        use_bias: Whether to add a bias inside the tanh, as the paper does.
        kernel_initializer: Initializer of both projections and of the coverage vector.
        vector_initializer: Initializer of the vector that maps hidden units to a score.
        bias_initializer: Initializer of the bias.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, or `(batch, key)` for
            a query of rank 2: the **sum** of the weights of all earlier steps. None means zeros.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is not a positive int, or a shape does not fit.

    Masking: ignores masks and propagates none; the normalizer applies the mask. Masked keys have
    weight 0, so their coverage stays 0.

    Example:

    >>> scorer = CoverageScorer(units=8)
    >>> query, key, coverage = (keras.ops.ones(s) for s in ((2, 3), (2, 7, 4), (2, 7)))
    >>> tuple(scorer(query, key, coverage).shape)
    (2, 7)

    Reference: Tu et al. 2016, https://arxiv.org/abs/1601.04811; See et al. 2017,
    https://arxiv.org/abs/1704.04368, equations 10 and 11.
    """

    reads_weights = "accumulated"

    def build_features(self) -> None:
        self.coverage_vector: keras.Variable = self._add_kernel(2, "coverage_vector", 1, self.units)

    def features(self, previous_weights: Tensor) -> TensorLike:
        return previous_weights[..., None] * self.cast_weight(self.coverage_vector)[0]
