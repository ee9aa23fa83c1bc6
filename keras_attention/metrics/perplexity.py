"""The perplexity of tokens, `exp(sum_t -w_t log p_t[y_t] / sum_t w_t)`."""

import keras
from keras import ops

from keras_attention._utils.tensor_types import Config, DTypePolicy, Tensor, TensorLike
from keras_attention.losses.token_crossentropy import token_crossentropy
from keras_attention.metrics._weighted_mean import WeightedMean


@keras.saving.register_keras_serializable(package="keras_attention")
class Perplexity(WeightedMean):
    """Computes the exponential of the mean crossentropy of the real tokens.

    Use it in `model.compile(metrics=[...])`, also beside a loss with label smoothing, which it does
    not have. It is 1 before the first token.

    Args:
        padding_id: Int, the id of padding in `y_true`, which does not count.
        from_logits: Whether `y_pred` are logits, see `keras_attention.TokenCrossentropy`.
        name: Optional str.
        dtype: Optional dtype of the sums, float32 or wider.

    Call arguments:
        y_true: Ids `(batch, time)`.
        y_pred: Float tensor `(batch, time, vocabulary)`.
        sample_weight: Optional weights `(batch,)` or `(batch, time)`.

    Raises:
        ValueError: If `padding_id` is not an int, the shapes do not fit, or an id that is not
            traced lies outside the vocabulary. With a traced one the perplexity is NaN.

    Masking: tokens do not count where the implicit mask of `y_pred` is False.

    Example:

    >>> perplexity = Perplexity()
    >>> perplexity.update_state(keras.ops.array([[1, 3, 0]]), keras.ops.zeros((1, 3, 7)))
    >>> round(float(perplexity.result()), 4)
    7.0
    """

    ranks = (3,)

    def __init__(
        self,
        padding_id: int = 0,
        from_logits: bool = True,
        name: str | None = "perplexity",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)
        self.from_logits: bool = from_logits

    def measure(
        self, labels: Tensor, predictions: Tensor, weights: Tensor
    ) -> tuple[TensorLike, TensorLike]:
        losses = token_crossentropy(
            "Perplexity", labels, predictions, self.padding_id, from_logits=self.from_logits
        )
        return losses, weights

    def result(self) -> Tensor:
        return ops.exp(super().result())

    def get_config(self) -> Config:
        return {**super().get_config(), "from_logits": self.from_logits}
