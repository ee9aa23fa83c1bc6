"""Base of soft and hard attention of Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    e_ti   = w . tanh(W_a a_i + W_h h_{t-1} + b)                    equation 4, f_att
    beta_t = sigmoid(w_b . h_{t-1} + b_b)                           section 4.2.1
    z_t    = beta_t * phi(a, alpha_t)

Code name -> paper name: `query` -> h_{t-1}, `value` -> a, `weights` -> alpha, `gate_kernel` ->
w_b, `context` -> z_t. A constant b_0 added to every e_ti changes no softmax, so we omit it.
"""

from typing import Unpack

from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers import AdditiveScorer


class ShowAttendTellAttention(AttentionMechanism):
    """Additive scores, with a gate that scales the context of each query.

    The base of `SoftAttention` and `HardAttention`; see there for the arguments.
    """

    def __init__(
        self,
        units: int,
        use_gate: bool,
        kernel_initializer: Initializer,
        vector_initializer: Initializer,
        normalizer: str | Normalizer | Config,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.units = validation.check_positive_int(type(self).__name__, "units", units)
        self.use_gate = use_gate
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)
        self.scorer = AdditiveScorer(
            self.units,
            kernel_initializer=self.kernel_initializer,
            vector_initializer=self.vector_initializer,
            dtype=self.dtype_policy,
        )

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.use_gate:
            initializer = derive_initializer(self.kernel_initializer, 2)
            self.gate_kernel = self.add_weight(
                (query_shape[-1], 1), initializer, name="gate_kernel"
            )
            self.gate_bias = self.add_weight((1,), "zeros", name="gate_bias")

    def apply_gate(self, query: TensorLike, context: TensorLike) -> Tensor:
        """Returns `beta * context` for a query and a context of rank 3."""
        if not self.use_gate:
            return context
        kernel, bias = (ops.cast(w, self.compute_dtype) for w in (self.gate_kernel, self.gate_bias))
        return ops.sigmoid(ops.einsum("bqd,dg->bqg", query, kernel) + bias) * context

    def get_gate_config(self) -> Config:
        """Returns the config of the arguments that the subclasses share."""
        return {
            "units": self.units,
            "use_gate": self.use_gate,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "seed": self.seed,
        }
