"""Attention composed from any scorer and any normalizer."""

from typing import Unpack

import keras

from keras_attention import scorers
from keras_attention._utils.tensor_types import Config, LayerOptions
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class Attention(AttentionMechanism):
    """Attention with a scorer and a normalizer of your choice.

    Use it for combinations that no paper named; `BahdanauAttention`, `LuongAttention` and the
    others are combinations with a name.

    Args:
        scorer: A `Scorer`, or the name of one without required arguments: "dot",
            "scaled_dot", "cosine", "concat", "general", "bilinear", "uniform".
        normalizer: A `Normalizer`, or its name: "softmax", "sparsemax", "entmax", "argmax",
            "sample", "gumbel_softmax", "monotonic", "forward".
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    Raises:
        ValueError: If a name is unknown, `dropout` lies outside [0, 1), or the tensors do
            not fit together.

    Example:

    >>> attention = Attention("scaled_dot")
    >>> query, value = keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 4))
    >>> context, weights = attention(query, value, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 5))

    Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, section 3.1; Luong et
    al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    def __init__(
        self,
        scorer: str | Scorer | Config,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            **self.get_pieces_config(),
        }
