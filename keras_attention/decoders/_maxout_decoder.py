"""A decoder with a maxout readout over its state, the previous word and a context.

    t~_i = U_o s + V_o E y_{i-1} + C_o c_i
    t_i  = max over neighboring pairs of t~_i
    p(y_i) = softmax(W_o t_i)

Cho et al. 2014 (https://arxiv.org/abs/1406.1078), appendix A.1.2; Bahdanau et al. 2015
(https://arxiv.org/abs/1409.0473), appendix A.2.2. Code name -> name above: `outputs` -> s,
`embedded` -> E y_{i-1}, `contexts` -> c.
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
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.kernels.matmul_precision import Dense
from keras_attention.recurrent.maxout import maxout


class MaxoutDecoder(RecurrentDecoder):
    """A recurrent decoder with the readout of Cho and Bahdanau; the base of both.

    A subclass also sets `self.recurrence`. See `RecurrentDecoder` for the protocol.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        maxout_units: int | None = None,
        dropout: float = 0.0,
        start_id: int | None = 2,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        owner = type(self).__name__
        self.units = validation.check_positive_int(owner, "units", units)
        if maxout_units is None:
            maxout_units = max(1, units // 2)
        self.maxout_units = validation.check_positive_int(owner, "maxout_units", maxout_units)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.pairs = Dense(
            2 * self.maxout_units,
            kernel_initializer=derive_initializer(self.kernel_initializer, 3),
            dtype=self.dtype_policy,
            name="readout",
        )

    def build_readout(self, leading: Shape, context_dim: int) -> None:
        """Builds the layers of `readout`; `leading` is the shape before the last axis."""
        self.pairs.build((*leading, self.units + self.embedding_dim + context_dim))
        if not self.logits.built:
            self.logits.build((*leading, self.maxout_units))

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        """Returns logits in the compute dtype; all tensors of rank 2 or all of rank 3."""
        return self.logits(self.compute_maxout(embedded, outputs, contexts, training))

    def compute_maxout(
        self,
        embedded: TensorLike,
        outputs: TensorLike,
        contexts: TensorLike,
        training: bool | None = None,
    ) -> Tensor:
        """Returns t `(..., maxout_units)`, after dropout."""
        pairs = self.pairs(ops.concatenate([outputs, embedded, contexts], axis=-1))
        return self.readout_dropout(maxout(pairs), training=training)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "maxout_units": self.maxout_units,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
        }
