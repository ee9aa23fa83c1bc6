"""Additive scores that also look at earlier weights; what two scorers share.

    score(q, k_j) = v . tanh(W q + U k_j + f_j + b)

f_j is made of the weights that earlier steps gave to the sources. Code name -> paper name:
`query_kernel` -> W, `key_kernel` -> U, `vector` -> v, `features` -> f.
"""

from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import independent
from keras_attention.scorers.base import Scorer


class WeightReader(Scorer):
    """Adds features of earlier weights inside the tanh; the base of two scorers.

    A subclass sets `reads_weights`, adds its weights in `build_features` and defines
    `features`. Independent draws for its kernels begin at number 2.
    """

    def __init__(
        self,
        units,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = checks.positive_int(type(self).__name__, "units", units)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def build(self, query_shape, key_shape):
        self.check_shapes(query_shape, key_shape)
        self.query_kernel = self._add_kernel(0, "query_kernel", query_shape[-1], self.units)
        self.key_kernel = self._add_kernel(1, "key_kernel", key_shape[-1], self.units)
        self.build_features()
        self.vector = self.add_weight((self.units, 1), self.vector_initializer, name="vector")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")
        self.built = True

    def _add_kernel(self, index, name, *shape):
        return self.add_weight(shape, independent(self.kernel_initializer, index), name=name)

    def build_features(self):
        """Adds the weights of `features`."""
        raise NotImplementedError

    def features(self, previous_weights):
        """Returns `(batch, query, key, units)` for weights `(batch, query, key)`."""
        raise NotImplementedError

    def prepare(self, key):
        """Returns `U k_j + b`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        projected = ops.einsum("bkd,du->bku", key, self.cast_weight(self.key_kernel))
        return projected if self.bias is None else projected + self.cast_weight(self.bias)

    def score(self, query, prepared, previous_weights=None):
        query = ops.cast(query, self.compute_dtype)
        projected = ops.einsum("bqd,du->bqu", query, self.cast_weight(self.query_kernel))
        pairs = projected[:, :, None, :] + prepared[:, None, :, :]  # (batch, query, key, units)
        if previous_weights is not None:
            self._check_weights(projected, prepared, previous_weights)
            pairs = pairs + self.features(ops.cast(previous_weights, self.compute_dtype))
        vector = self.cast_weight(self.vector)[:, 0]
        return ops.einsum("bqku,u->bqk", ops.tanh(pairs), vector)

    def _check_weights(self, query, key, previous_weights):
        expected = (query.shape[0], query.shape[1], key.shape[1])
        shape = tuple(previous_weights.shape)
        fits = len(shape) == 3 and all(
            None in pair or pair[0] == pair[1] for pair in zip(shape, expected, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{type(self).__name__} expects `previous_weights` of shape (batch, query, key), "
                f"here {expected}: a weight for every score. "
                f"Received: previous_weights.shape={shape}"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
