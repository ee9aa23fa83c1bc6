"""What soft and hard attention of Xu et al. 2015 (https://arxiv.org/abs/1502.03044) share.

    e_ti   = w . tanh(W_a a_i + W_h h_{t-1} + b)                    equation 4, f_att
    beta_t = sigmoid(w_b . h_{t-1} + b_b)                           section 4.2.1
    z_t    = beta_t * phi(a, alpha_t)

Code name -> paper name: `query` -> h_{t-1}, `value` -> a, `weights` -> alpha, `gate_kernel` ->
w_b, `context` -> z_t. A constant b_0 added to every e_ti changes no softmax, so there is none.
"""

from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import independent
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.scorers import AdditiveScorer


class GatedAttention(AttentionMechanism):
    """Additive scores, and a gate for each query that says how much the context counts.

    The base of `SoftAttention` and `HardAttention`; see there for the arguments.
    """

    def __init__(
        self,
        units,
        use_gate,
        kernel_initializer,
        vector_initializer,
        normalizer,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.units = checks.positive_int(type(self).__name__, "units", units)
        self.use_gate = use_gate
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.scorer = AdditiveScorer(
            self.units,
            kernel_initializer=self.kernel_initializer,
            vector_initializer=self.vector_initializer,
            dtype=self.dtype_policy,
        )

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        if self.use_gate:
            initializer = independent(self.kernel_initializer, 2)
            self.gate_kernel = self.add_weight(
                (query_shape[-1], 1), initializer, name="gate_kernel"
            )
            self.gate_bias = self.add_weight((1,), "zeros", name="gate_bias")

    def gated(self, query, context):
        """Returns `beta * context` for a query and a context of rank 3."""
        if not self.use_gate:
            return context
        kernel, bias = (ops.cast(w, self.compute_dtype) for w in (self.gate_kernel, self.gate_bias))
        return ops.sigmoid(ops.einsum("bqd,dg->bqg", query, kernel) + bias) * context

    def gated_config(self):
        """Returns the config of the arguments that the subclasses share."""
        return {
            "units": self.units,
            "use_gate": self.use_gate,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "seed": self.seed,
        }
