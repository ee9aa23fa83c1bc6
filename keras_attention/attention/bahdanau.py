"""Additive attention, Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473).

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j)                      appendix A.1.2
    a_ij = exp(e_ij) / sum_k exp(e_ik)                            equation 6
    c_i  = sum_j a_ij h_j                                         equation 5

Code name -> paper name: `query` -> s_{i-1} (the **previous** decoder state), `value` -> h_j,
`weights` -> a_ij, `context` -> c_i.
"""

from typing import Unpack

import keras
from keras import initializers

from keras_attention import validation
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
)
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers import AdditiveScorer
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class BahdanauAttention(AttentionMechanism):
    """Attention with additive scores, as in RNNsearch.

    Use it if query and value differ in width, or as a robust first choice in a recurrent
    decoder. It projects query and key, unlike `keras.layers.AdditiveAttention`.

    Args:
        units: Positive int, the width that query and key are projected to.
        use_bias: Whether to add a bias inside the tanh. The paper has none.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        kernel_initializer: Initializer of both projections; the paper's is
            `RandomNormal(stddev=0.001)`.
        vector_initializer: Initializer of v_a; the paper uses zeros, which makes the initial
            attention weights exactly uniform.
        seed: Optional int, the seed of the dropout.
        blockwise: "auto", True or False, whether to compute the scores block by block; see
            `AdditiveScorer`.
        normalize_vector: Whether v_a is normalized to a learned length; see `AdditiveScorer`.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    Raises:
        ValueError: If `units` is not a positive int, or the tensors do not fit together.

    Example:

    >>> attention = BahdanauAttention(units=8)
    >>> state, annotations = keras.ops.ones((2, 6)), keras.ops.ones((2, 5, 4))
    >>> context, weights = attention(state, annotations, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 4), (2, 5))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, equations 5 and 6.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        blockwise: bool | str = "auto",
        normalize_vector: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.units: int = validation.check_positive_int("BahdanauAttention", "units", units)
        self.use_bias = use_bias
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)
        self.scorer: Scorer = AdditiveScorer(
            self.units,
            use_bias=use_bias,
            kernel_initializer=self.kernel_initializer,
            vector_initializer=self.vector_initializer,
            blockwise=blockwise,
            normalize_vector=normalize_vector,
            dtype=self.dtype_policy,
        )
        self.blockwise: bool | str = self.scorer.blockwise
        self.normalize_vector: bool = self.scorer.normalize_vector

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            "blockwise": self.blockwise,
            "normalize_vector": self.normalize_vector,
            **self.get_pieces_config(),
        }
