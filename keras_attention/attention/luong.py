"""Global attention with Luong's scores, Luong et al. 2015 (https://arxiv.org/abs/1508.04025).

    a_t(s) = exp(score(h_t, hs_s)) / sum_s' exp(score(h_t, hs_s'))      equation 7
    score  = h_t . hs_s | h_t^T W_a hs_s | v_a . tanh(W_a [h_t; hs_s])  equation 8
    a_t    = softmax(W_a h_t)                                           equation 9, location
    c_t    = sum_s a_t(s) hs_s

Code name -> paper name: `query` -> h_t (the **current** decoder state), `value` -> hs_s,
`weights` -> a_t, `context` -> c_t. The attentional vector tanh(W_c [c_t; h_t]) belongs to
the recurrent layer: see `AttentionRNN`.
"""

from typing import Unpack

import keras

from keras_attention import validation
from keras_attention._utils.tensor_types import Config, LayerOptions
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers import (
    ConcatScorer,
    DotScorer,
    GeneralScorer,
    LocationScorer,
    ScaledDotScorer,
)
from keras_attention.scorers.base import Scorer

SCORES = ("dot", "general", "concat", "location", "scaled_dot")


@keras.saving.register_keras_serializable(package="keras_attention")
class LuongAttention(AttentionMechanism):
    """Attention with one of Luong's four scores, or the scaled dot product.

    Args:
        score: "dot" and "scaled_dot" have no weights and need query and value of equal
            width; "general" has a matrix between them, without a bias; "concat" has a
            hidden layer; "location" uses the query alone.
        units: Positive int, the hidden layer's size for "concat"; None is the width of
            the query, as in the paper.
        max_length: Positive int, the maximum number of source positions for "location".
            It is required there and an error for other scores.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    Raises:
        ValueError: If `score` is unknown, an argument does not apply to it, or the tensors
            do not fit together.

    Example:

    >>> attention = LuongAttention("general")
    >>> state, annotations = keras.ops.ones((2, 6)), keras.ops.ones((2, 5, 4))
    >>> context, weights = attention(state, annotations, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 4), (2, 5))

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1.
    """

    units: int | None
    max_length: int | None

    def __init__(
        self,
        score: str = "general",
        units: int | None = None,
        max_length: int | None = None,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "LuongAttention"
        hint = "For any other scorer, use `Attention(scorer)`."
        self.score: str = validation.check_one_of(owner, "score", score, SCORES, hint)
        if units is not None and score != "concat":
            raise ValueError(
                f"{owner} uses `units` only with score='concat'. "
                f"Received: score={score!r}, units={units!r}"
            )
        if (max_length is None) == (score == "location"):
            raise ValueError(
                f"{owner} needs `max_length`, the number of source positions, with "
                "score='location' and rejects it with any other. "
                f"Received: score={score!r}, max_length={max_length!r}"
            )
        self.units, self.max_length = units, max_length
        self.scorer: Scorer = self._make_scorer(dtype=self.dtype_policy)

    def _make_scorer(self, dtype):
        if self.score == "concat":
            return ConcatScorer(self.units, dtype=dtype)
        if self.score == "location":
            return LocationScorer(self.max_length, dtype=dtype)
        weights = {"dot": DotScorer, "scaled_dot": ScaledDotScorer, "general": GeneralScorer}
        return weights[self.score](dtype=dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "score": self.score,
            "units": self.units,
            "max_length": self.max_length,
            **self.get_pieces_config(),
        }
