"""Additive scores with coverage, Tu et al. 2016 (https://arxiv.org/abs/1601.04811) in the
form of See et al. 2017 (https://arxiv.org/abs/1704.04368).

    c^t   = sum_{t' < t} a^{t'}                                   See et al., equation 10
    e^t_j = v . tanh(W_h h_j + W_s s_t + w_c c^t_j + b)           equation 11

Code name -> paper name: `query` -> s_t, `key` -> h_j, `previous_weights` -> c^t,
`coverage_vector` -> w_c, `query_kernel` -> W_s, `key_kernel` -> W_h.
"""

import keras

from keras_attention.scorers.weight_reader import WeightReader


@keras.saving.register_keras_serializable(package="keras_attention")
class CoverageScorer(WeightReader):
    """Scores keys like `AdditiveScorer`, and sees how much each was attended to before.

    Use it where a decoder repeats itself or leaves out parts of the source: the sum of all
    earlier weights tells it what is done. `AttentionRNN` carries that sum; the scorer by
    itself takes it as an argument. It costs `query * key * units` memory.

    Args:
        units: Positive int, the size both sides are projected to.
        use_bias: Whether a bias is added inside the tanh, as the paper does.
        kernel_initializer: Initializer of both projections and of the coverage's vector.
        vector_initializer: Initializer of the vector that turns units into a score.
        bias_initializer: Initializer of the bias.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, or `(batch, key)` for
            a query of rank 2: the **sum** of the weights of all earlier steps. None is zeros.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is not a positive int, or a shape does not fit.

    Masking: reads no mask and passes none on; the normalizer applies it. Masked keys have
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

    def build_features(self):
        self.coverage_vector = self._add_kernel(2, "coverage_vector", 1, self.units)

    def features(self, previous_weights):
        return previous_weights[..., None] * self.cast_weight(self.coverage_vector)[0]
