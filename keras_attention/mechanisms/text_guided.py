"""Text-guided attention, Mun et al. 2017 (https://arxiv.org/abs/1612.03557).

    e_i   = w . tanh(W_a a_i + b_a + W_g g) + b
    alpha = softmax_i(e)              context = sum_i alpha_i a_i

Code name -> paper name: `query` -> g (a sentence's vector), `value` -> a_i (an image's locations),
`weights` -> alpha. The guidance stays the same while a caption is written, so the image is read
once a caption: the context is the decoder's first input, and no step attends again.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.losses.masking import batch_mean
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.precision import at_least_float32
from keras_attention.scorers import AdditiveScorer


def entropies(weights):
    """Returns `-sum_i alpha_i log alpha_i` over the last axis, 0 log 0 being 0."""
    positive = weights > 0
    logs = ops.log(ops.where(positive, weights, 1))  # 1 first: the log of 0 has no gradient
    return -ops.sum(weights * logs, axis=-1)


class OffsetAdditiveScorer(AdditiveScorer):
    """Additive scores plus one number, the b of the equation above."""

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.offset = self.add_weight((), "zeros", name="offset")

    def score(self, query, prepared, previous_weights=None):
        scores = super().score(query, prepared, previous_weights)
        return scores + self.cast_weight(self.offset)


@keras.saving.register_keras_serializable(package="keras_attention")
class TextGuidedAttention(AttentionMechanism):
    """Looks at an image once, where a sentence says to look.

    Use it where a text chooses what is read before decoding begins. It is additive
    attention; what sets it apart is the query, a sentence's vector instead of a decoder's
    state, and the entropy bonus that keeps the weights from settling on one location early.

    Args:
        units: Positive int, the size both sides are projected to.
        entropy_bonus: Float of at least 0. While training, the mean entropy of the weights
            times this is taken from the loss (`add_loss`), over the queries that are kept; a loop
            over `attend` adds none. The paper's code has 0.002.
        use_offset: Whether a number is added to every score, as in the paper. Softmax cancels
            it; it is there for copied weights and other normalizers.
        normalizer: A `Normalizer` or its name.
        dropout: Float in [0, 1), the share of weights dropped while training.
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
        units,
        entropy_bonus=0.0,
        use_offset=True,
        normalizer="softmax",
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "TextGuidedAttention"
        self.units = checks.positive_int(owner, "units", units)
        self.entropy_bonus = checks.number_in_range(owner, "entropy_bonus", entropy_bonus, 0)
        self.use_offset = use_offset
        scorer = OffsetAdditiveScorer if use_offset else AdditiveScorer
        self.scorer = scorer(self.units, dtype=self.dtype_policy)

    def _read(self, query, prepared, reading):
        context, weights, details = super()._read(query, prepared, reading)
        if reading.training and reading.in_call and self.entropy_bonus > 0:
            values = entropies(at_least_float32(weights))
            real = reading.query_mask
            real = None if real is None else ops.reshape(real, (-1,))
            self.add_loss(-self.entropy_bonus * batch_mean(ops.reshape(values, (-1,)), real))
        return context, weights, details

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "entropy_bonus": self.entropy_bonus,
            "use_offset": self.use_offset,
            **self.pieces_config(),
        }
