"""Text-guided attention, Mun et al. 2017 (https://arxiv.org/abs/1612.03557).

    e_i   = w . tanh(W_a a_i + b_a + W_g g) + b
    alpha = softmax_i(e)              context = sum_i alpha_i a_i

Code name -> paper name: `query` -> g (a sentence's vector), `value` -> a_i (an image's locations),
`weights` -> alpha. The guidance is constant while a caption is generated, so attention runs once
per caption: the context is the decoder's first input, and no step attends again.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.tensor_types import Config, LayerOptions, Shape, Tensor, TensorLike
from keras_attention.attention.base import AttentionMechanism
from keras_attention.losses._masking import batch_mean
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers import AdditiveScorer
from keras_attention.scorers.base import Scorer


def entropies(weights: TensorLike) -> Tensor:
    """Returns `-sum_i alpha_i log alpha_i` over the last axis, with 0 log 0 = 0."""
    positive = weights > 0
    logs = ops.log(ops.where(positive, weights, 1))  # 1 first: the log of 0 has no gradient
    return -ops.sum(weights * logs, axis=-1)


class OffsetAdditiveScorer(AdditiveScorer):
    """Additive scores plus one number, the b of the equation above."""

    offset: keras.Variable

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        super().build(query_shape, key_shape)
        self.offset = self.add_weight((), "zeros", name="offset")

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        scores = super().score(query, prepared, previous_weights)
        return scores + self.cast_weight(self.offset)


@keras.saving.register_keras_serializable(package="keras_attention")
class TextGuidedAttention(AttentionMechanism):
    """Attends to an image once, guided by a sentence.

    Use it if a text selects the relevant locations before decoding begins. It is additive
    attention with two differences: the query is a sentence's vector instead of a decoder's
    state, and an entropy bonus keeps the weights from settling on one location early.

    Args:
        units: Positive int, the width that query and key are projected to.
        entropy_bonus: Float of at least 0. While training, this times the mean entropy of the
            weights of unmasked queries is subtracted from the loss (`add_loss`). A loop over
            `attend` subtracts nothing. The paper's code has 0.002.
        use_offset: Whether to add a learned number to every score, as in the paper. Softmax
            cancels it; use it for copied weights and other normalizers.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, here the
        guidance `(batch, guidance_dim)`, `value`, here the annotations
        `(batch, locations, dim)`, the masks, `return_attention_scores`, `training`. Reshape
        an image `(batch, height, width, dim)` to one axis of locations.

    Returns:
        The context `(batch, dim)`, or the pair of context and weights `(batch, locations)` if
        `return_attention_scores`.

    Raises:
        ValueError: If `units` is not a positive int, `entropy_bonus` is negative, or the tensors
            do not fit together.

    Example:

    >>> attention = TextGuidedAttention(units=8, entropy_bonus=0.002)
    >>> sentence, image = keras.ops.ones((2, 6)), keras.ops.ones((2, 9, 4))
    >>> context, weights = attention(sentence, image, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 4), (2, 9))

    Reference: Mun et al. 2017, https://arxiv.org/abs/1612.03557.
    """

    def __init__(
        self,
        units: int,
        entropy_bonus: float = 0.0,
        use_offset: bool = True,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "TextGuidedAttention"
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.entropy_bonus: float = validation.check_number_in_range(
            owner, "entropy_bonus", entropy_bonus, 0
        )
        self.is_recomputable = not self.entropy_bonus
        self.use_offset = use_offset
        scorer = OffsetAdditiveScorer if use_offset else AdditiveScorer
        self.scorer: Scorer = scorer(self.units, dtype=self.dtype_policy)

    def _read_scores(self, scores, query, value, request):
        context, weights, auxiliary_outputs = super()._read_scores(scores, query, value, request)
        if request.training and request.is_layer_call and self.entropy_bonus > 0:
            values = entropies(at_least_float32(weights))
            valid = request.query_mask
            valid = None if valid is None else ops.reshape(valid, (-1,))
            self.add_loss(-self.entropy_bonus * batch_mean(ops.reshape(values, (-1,)), valid))
        return context, weights, auxiliary_outputs

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "entropy_bonus": self.entropy_bonus,
            "use_offset": self.use_offset,
            **self.get_pieces_config(),
        }
