"""Dynamic convolution scores, Battenberg et al. 2020 (https://arxiv.org/abs/1910.10288).

    f_i  = F * a_{i-1}                                            static filters
    g_i  = G(s_i) * a_{i-1},  G(s_i) = V_G tanh(W_G s_i + b_G)    dynamic filters
    p_i  = log(P * a_{i-1})                                       the prior, at least log 1e-6
    e_ij = v . tanh(U f_ij + T g_ij + b) + p_ij

P has the probabilities of a beta-binomial distribution: the prior moves k keys forward with
probability P_k. Code name -> paper name: `query` -> s_i, `previous_weights` -> a_{i-1},
`filter_kernel` -> F, `generator_kernel` -> W_G, `generator_filters` -> V_G, `static_kernel` -> U,
`dynamic_kernel` -> T, `vector` -> v. As in Keras convolutions, F and G are not flipped
(cross-correlation). Before the first step, all weight is on key 0.
"""

import math
from typing import Unpack

import keras
import numpy as np
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.neighbor_keys import first_key_weights, gather_neighbors
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorLike,
)
from keras_attention.scorers._attention_history_scorer import (
    PreviousWeightsScorer,
    check_odd_kernel_size,
)
from keras_attention.scorers.location_sensitive import location_features

MIN_PRIOR = 1e-6  # lower bound of the prior, from the paper


def beta_binomial(length: int, alpha: float, beta: float) -> list[float]:
    """Returns the probabilities of 0 to `length - 1`: those of `length - 1` draws.

    Example:

    >>> [round(probability, 3) for probability in beta_binomial(3, 1.0, 1.0)]  # uniform
    [0.333, 0.333, 0.333]
    """
    last = length - 1
    return [
        math.comb(last, k)
        * math.exp(_log_beta(k + alpha, last - k + beta) - _log_beta(alpha, beta))
        for k in range(length)
    ]


def _log_beta(alpha, beta):
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)


def log_prior(weights: TensorLike, taps: list[float]) -> Tensor:
    """Returns `log(P * a)`, at least `log 1e-6`, in at least float32.

    Args:
        weights: Float tensor `(batch, query, key)`, the weights of the previous step.
        taps: The probabilities of moving 0, 1, ... keys forward.
    """
    # A centered filter whose right half is 0; its left end is the farthest move.
    kernel = np.array([*reversed(taps), *[0.0] * (len(taps) - 1)])[:, None]
    prior = location_features(weights, kernel)[..., 0]
    return ops.log(ops.maximum(prior, MIN_PRIOR))


@keras.saving.register_keras_serializable(package="keras_attention")
class DynamicConvolutionScorer(PreviousWeightsScorer):
    """Scores keys by their distance to the last attended ones, with filters made by the query.

    Use it if source and target are long and in the same order, as in speech synthesis: of the keys
    only their number is used, so the alignment does not depend on the length of the source. The
    filters select how far to move, and the prior moves every step forward, by 1 key on average by
    default. `AttentionRNN` carries the previous weights; a direct call takes them as an argument.
    The scorer needs `query * key * (units + kernel_size)` memory.

    Args:
        units: Positive int, the width of the hidden layers of the scores and of the filters.
        static_filters: Positive int, the number of learned filters.
        dynamic_filters: Positive int, the number of filters computed from the query.
        kernel_size: Positive odd int, the number of positions that a centered filter covers.
        prior_length: Positive int; the prior moves by at most `prior_length - 1` keys.
        prior_alpha: Positive number, the alpha of the beta-binomial distribution.
        prior_beta: Positive number, its beta. The prior moves by
            `(prior_length - 1) * prior_alpha / (prior_alpha + prior_beta)` keys on average.
        kernel_initializer: Initializer of filters and projections.
        vector_initializer: Initializer of the vector that maps hidden units to a score.
        bias_initializer: Initializer of both biases.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`; its values are ignored.
        previous_weights: Optional float tensor `(batch, query, key)`, or `(batch, key)` for
            a query of rank 2: the weights of the previous step. None means that all weight is
            on key 0.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If a size is not a positive int, `kernel_size` is even, a number of the prior
            is not positive, or a shape does not fit.

    Masking: ignores masks and propagates none; the normalizer applies the mask. Masked keys count
        as positions.

    Example:

    >>> scorer = DynamicConvolutionScorer(units=8, kernel_size=3)
    >>> query, key, weights = (keras.ops.ones(s) for s in ((2, 3), (2, 7, 4), (2, 7)))
    >>> tuple(scorer(query, key, weights).shape)
    (2, 7)

    Reference: Battenberg et al. 2020, https://arxiv.org/abs/1910.10288, "Dynamic Convolution
    Attention".
    """

    reads_weights = "previous"
    reads_positions = True

    def __init__(
        self,
        units: int,
        static_filters: int = 8,
        dynamic_filters: int = 8,
        kernel_size: int = 21,
        prior_length: int = 11,
        prior_alpha: float = 0.1,
        prior_beta: float = 0.9,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.static_filters: int = validation.check_positive_int(
            owner, "static_filters", static_filters
        )
        self.dynamic_filters: int = validation.check_positive_int(
            owner, "dynamic_filters", dynamic_filters
        )
        self.kernel_size: int = check_odd_kernel_size(owner, kernel_size)
        self.prior_length: int = validation.check_positive_int(owner, "prior_length", prior_length)
        self.prior_alpha: float = validation.check_number_in_range(
            owner, "prior_alpha", prior_alpha, 0, exclude_low=True
        )
        self.prior_beta: float = validation.check_number_in_range(
            owner, "prior_beta", prior_beta, 0, exclude_low=True
        )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)
        self._taps = beta_binomial(self.prior_length, self.prior_alpha, self.prior_beta)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        shapes = {
            "filter_kernel": (self.kernel_size, self.static_filters),
            "generator_kernel": (query_shape[-1], self.units),
            "generator_filters": (self.units, self.kernel_size * self.dynamic_filters),
            "static_kernel": (self.static_filters, self.units),
            "dynamic_kernel": (self.dynamic_filters, self.units),
        }
        for index, (name, shape) in enumerate(shapes.items()):
            initializer = derive_initializer(self.kernel_initializer, index)
            setattr(self, name, self.add_weight(shape, initializer, name=name))
        for index, name in enumerate(("generator_bias", "bias")):
            initializer = derive_initializer(self.bias_initializer, index)
            setattr(self, name, self.add_weight((self.units,), initializer, name=name))
        # A column vector, so that initializers based on fan-in see (units, 1).
        self.vector: keras.Variable = self.add_weight(
            (self.units, 1), self.vector_initializer, name="vector"
        )
        self.built = True

    def initial_weights(self, batch: Size, num_keys: Size) -> TensorLike:
        return first_key_weights(batch, num_keys, self.compute_dtype)

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        sizes = (*get_shape(query)[:2], get_shape(prepared)[1])
        if previous_weights is None:
            first = self.initial_weights(sizes[0], sizes[2])
            previous_weights = ops.broadcast_to(first[:, None], sizes)
        self.check_previous_weights(query.shape, prepared.shape, previous_weights)
        features = location_features(previous_weights, self.cast_weight(self.filter_kernel))
        features = ops.cast(features, self.compute_dtype)
        hidden = ops.einsum("bqkf,fu->bqku", features, self.cast_weight(self.static_kernel))
        features = self._dynamic_features(query, previous_weights)
        dynamic = ops.einsum("bqkf,fu->bqku", features, self.cast_weight(self.dynamic_kernel))
        hidden = ops.tanh(hidden + dynamic + self.cast_weight(self.bias))
        scores = ops.einsum("bqku,u->bqk", hidden, self.cast_weight(self.vector)[:, 0])
        prior = log_prior(previous_weights, self._taps)
        return ops.cast(ops.cast(scores, prior.dtype) + prior, self.compute_dtype)

    def _dynamic_features(self, query, previous_weights):
        """Returns the weights convolved with the filters of each query."""
        query = ops.cast(query, self.compute_dtype)
        hidden = ops.einsum("bqd,du->bqu", query, self.cast_weight(self.generator_kernel))
        hidden = ops.tanh(hidden + self.cast_weight(self.generator_bias))
        filters = ops.einsum("bqu,uf->bqf", hidden, self.cast_weight(self.generator_filters))
        sizes = (*get_shape(query)[:2], self.kernel_size, self.dynamic_filters)
        radius = self.kernel_size // 2
        weights = ops.cast(previous_weights, self.compute_dtype)
        neighbors = gather_neighbors(weights, radius, radius)
        return ops.einsum("bqkn,bqnf->bqkf", neighbors, reshape(filters, sizes))

    def get_config(self) -> Config:
        names = ("units", "static_filters", "dynamic_filters", "kernel_size")
        names += ("prior_length", "prior_alpha", "prior_beta")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
