"""Forms for a GPU that the library does not have yet, measured beside those that it has.

They run on JAX alone. Whatever wins is written again in the library, for every backend.
"""

import jax
import jax.numpy as jnp

from keras_attention import AdditiveScorer
from keras_attention.normalizers import MonotonicNormalizer
from keras_attention.normalizers.monotonic import (
    MIN_FACTOR,
    MIN_PRODUCT,
    _skew,
    _unskew,
)

UNROLLED_DIAGONALS = 8


@jax.custom_vjp
def fused_scores(query, key, vector):
    """Returns additive scores as one reduction of a broadcast, which XLA does not store."""
    return jnp.sum(vector * jnp.tanh(query[:, :, None] + key[:, None]), -1)


def _forward(query, key, vector):
    return fused_scores(query, key, vector), (query, key, vector)


def _backward(residuals, cotangent):
    """Each sum computes the tangents again: the barrier keeps XLA from storing them once."""

    def hidden():
        query, key, _ = jax.lax.optimization_barrier(residuals)
        return jnp.tanh(query[:, :, None] + key[:, None])

    def slope():
        return cotangent[..., None] * (1 - hidden() ** 2)

    vector = residuals[2]
    grad_vector = jnp.sum(cotangent[..., None] * hidden(), (0, 1, 2))
    return vector * jnp.sum(slope(), 2), vector * jnp.sum(slope(), 1), grad_vector


fused_scores.defvjp(_forward, _backward)


class FusedAdditiveScorer(AdditiveScorer):
    """`AdditiveScorer` with `fused_scores`."""

    def score(self, query, prepared, previous_weights=None):
        return fused_scores(self.project_query(query), prepared, self.scoring_vector())


class HoistedMonotonicNormalizer(MonotonicNormalizer):
    """Equation 10, with all that no query's weights change computed before the loop.

    A turn is one product with a triangle of ones and one element-wise function.
    """

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        stop = self._probabilities(scores, mask, noise)
        logs = jnp.log(jnp.maximum(1 - stop, MIN_FACTOR))
        logs = jnp.concatenate([jnp.zeros_like(logs[..., :1]), logs[..., :-1]], -1)
        triangle = jnp.triu(jnp.ones((stop.shape[-1],) * 2, stop.dtype))
        passed = jnp.exp(jnp.matmul(logs, triangle, precision="highest"))
        factors = jnp.moveaxis(stop * passed, 1, 0)
        divisors = jnp.moveaxis(1 / jnp.maximum(passed, MIN_PRODUCT), 1, 0)

        def step(previous, pair):
            factor, divisor = pair
            total = jnp.matmul(previous * divisor, triangle, precision="highest")
            return (factor * total,) * 2

        initial = self.initial_weights(stop.shape[0], stop.shape[-1])
        return jnp.moveaxis(jax.lax.scan(step, initial, (factors, divisors))[1], 0, 1)


class UnrolledMonotonicNormalizer(MonotonicNormalizer):
    """The exact recursion over diagonals, several of them in a turn of the loop."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        stop = self._probabilities(scores, mask, noise)
        batch, queries, keys = stop.shape
        first = jnp.zeros((batch, queries + keys - 1), stop.dtype).at[:, 0].set(1)
        sequence = jnp.moveaxis(_skew(stop), 1, 0), first.T[:, :, None]

        def step(state, inputs):
            staying, above = state
            stop, first = inputs
            arriving = staying + jnp.concatenate([first, above[:, :-1]], 1)
            weights = stop * arriving
            return (arriving - weights, weights), weights

        zeros = jnp.zeros((batch, queries), stop.dtype)
        _, weights = jax.lax.scan(step, (zeros, zeros), sequence, unroll=UNROLLED_DIAGONALS)
        return _unskew(jnp.moveaxis(weights, 0, 1), queries, keys)
