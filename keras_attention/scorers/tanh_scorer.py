"""What the additive scorers share: one hidden layer of tanh over query and key.

    score(q, k_j) = v . tanh(W q + U k_j + f_j + b)

f_j is what a scorer adds for a key beside the key itself; `AdditiveScorer` adds nothing. Code
name -> name above: `query_kernel` -> W, `key_kernel` -> U, `vector` -> v, `features` -> f.
"""

from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import independent
from keras_attention.scorers.base import Scorer


class TanhScorer(Scorer):
    """Projects query and key to one width and has the vector that scores them; abstract.

    A subclass defines `score`. For features it adds their weights in `build_features`;
    independent draws for its kernels begin at number 2.
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
        # A column, so that an initializer that reads fans sees (units, 1).
        self.vector = self.add_weight((self.units, 1), self.vector_initializer, name="vector")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")
        self.built = True

    def _add_kernel(self, index, name, *shape):
        return self.add_weight(shape, independent(self.kernel_initializer, index), name=name)

    def build_features(self):
        """Adds the weights of the features, if there are any."""

    def prepare(self, key):
        """Returns `U k_j + b`, of shape `(batch, key, units)`."""
        self.check_ready(key)
        key = ops.cast(key, self.compute_dtype)
        projected = ops.einsum("bkd,du->bku", key, self.cast_weight(self.key_kernel))
        return projected if self.bias is None else projected + self.cast_weight(self.bias)

    def project_query(self, query):
        """Returns `W q`, of shape `(batch, query, units)`."""
        query = ops.cast(query, self.compute_dtype)
        return ops.einsum("bqd,du->bqu", query, self.cast_weight(self.query_kernel))

    def scoring_vector(self):
        """Returns `v`, of shape `(units,)`."""
        return self.cast_weight(self.vector)[:, 0]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
