"""Additive scores, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j + b)                  appendix A.1.2

Code name -> paper name: `query` -> s_{i-1}, `key` -> h_j, `query_kernel` -> W_a,
`key_kernel` -> U_a, `vector` -> v_a, `scores` -> e_ij. The paper has no bias. A normalized v_a is
`gain * vector / |vector|`, Salimans and Kingma 2016, equation 2 (https://arxiv.org/abs/1602.07868).
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.kernels.blocked_additive import (
    BLOCKWISE_CHOICES,
    blockwise_additive_scores,
    should_use_blocks,
)
from keras_attention.kernels.blocks import smart_cond, supports_loops
from keras_attention.scorers._tanh_scorer import TanhScorer

TINY = 1e-30  # keeps the gradient at a vector of zeros finite


def additive_scores(
    query: TensorLike,
    key: TensorLike,
    vector: TensorLike,
    blockwise: bool | str = "auto",
    features: TensorLike | None = None,
) -> Tensor:
    """Returns `vector . tanh(query + key + features)` for every pair of a query and a key.

    Args:
        query: Float tensor `(batch, query, units)`.
        key: Float tensor `(batch, key, units)`.
        vector: Float tensor `(units,)`.
        blockwise: Whether to compute the pairs block by block: True, False or "auto".
        features: Optional float tensor `(batch, query, key, units)`. If passed, all pairs are
            computed at once.

    Returns:
        Scores `(batch, query, key)`.
    """
    if features is not None or not blockwise or not supports_loops():
        return dense_additive_scores(query, key, vector, features)
    worthwhile, forward = True, None
    if blockwise == "auto":
        worthwhile, forward = should_use_blocks(query, key), dense_additive_scores
    if worthwhile is False:
        return dense_additive_scores(query, key, vector)
    scores = smart_cond(
        worthwhile,
        lambda: blockwise_additive_scores(query, key, vector, forward),
        lambda: dense_additive_scores(query, key, vector),
    )
    return reshape(scores, (*get_shape(query)[:2], get_shape(key)[1]))  # sets the static sizes


def dense_additive_scores(
    query: TensorLike, key: TensorLike, vector: TensorLike, features: TensorLike | None = None
) -> Tensor:
    """Returns the scores from the array of all pairs, `(batch, query, key, units)`."""
    pairs = query[:, :, None, :] + key[:, None, :, :]
    pairs = pairs if features is None else pairs + features
    return ops.einsum("bqku,u->bqk", ops.tanh(pairs), vector)


@keras.saving.register_keras_serializable(package="keras_attention")
class AdditiveScorer(TanhScorer):
    """Scores keys by a small network over query and key, as in Bahdanau et al.

    Use it if query and key differ in width, or if dot products of long vectors would saturate
    the normalizer. The key is projected once per source (`prepare`), the query once per step.
    Blockwise computation stores only the scores, but computes `query * key * units` quotients.
    Otherwise the scorer stores `query * key * units` numbers.

    Args:
        units: Positive int, the width that query and key are projected to.
        use_bias: Whether to add a bias inside the tanh. The paper has none.
        kernel_initializer: Initializer of both projections. RNNsearch uses
            `RandomNormal(stddev=0.001)`.
        vector_initializer: Initializer of the vector that maps hidden units to a score.
            RNNsearch uses zeros, which makes the initial attention weights uniform.
        bias_initializer: Initializer of the bias.
        blockwise: True computes scores and gradients block by block, False never does. "auto"
            does so if the array of pairs would exceed 16 MB or if a length is unknown, except
            for a single query. The results are the same. Blockwise computation is fastest under
            XLA and has no second derivative.
        normalize_vector: Whether to normalize the vector to the length of a learned scalar, the
            `gain`, `1 / sqrt(units)` at first. It cannot start from zeros.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is not a positive int, `blockwise` has an unknown value, or a shape
            has the wrong rank.

    Masking: ignores masks and propagates none; the normalizer applies the mask.

    Example:

    >>> scorer = AdditiveScorer(units=8)
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.2; normalized vector:
    Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868, equation 2.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        blockwise: bool | str = "auto",
        normalize_vector: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units, use_bias, kernel_initializer, vector_initializer, bias_initializer, **kwargs
        )
        self.normalize_vector: bool = bool(normalize_vector)
        self.blockwise: bool | str = validation.check_one_of(
            type(self).__name__, "blockwise", blockwise, BLOCKWISE_CHOICES
        )

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        super().build(query_shape, key_shape)
        if self.normalize_vector:
            gain = initializers.Constant(self.units**-0.5)
            self.gain: keras.Variable = self.add_weight((), gain, name="gain")

    def scoring_vector(self) -> Tensor:
        vector = super().scoring_vector()
        if not self.normalize_vector:
            return vector
        wide = at_least_float32(vector)
        norm = ops.sqrt(ops.sum(ops.square(wide)) + TINY)
        return ops.cast(ops.cast(self.gain, wide.dtype) * wide / norm, vector.dtype)

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        query, vector = self.project_query(query), self.scoring_vector()
        return additive_scores(query, prepared, vector, self.blockwise)

    def score_step(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        if self.blockwise is True:
            return self.score(query, prepared)
        return dense_additive_scores(self.project_query(query), prepared, self.scoring_vector())

    def get_config(self) -> Config:
        own = {"blockwise": self.blockwise, "normalize_vector": self.normalize_vector}
        return {**super().get_config(), **own}
