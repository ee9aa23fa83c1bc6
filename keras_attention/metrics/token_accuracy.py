"""The fraction of tokens that are predicted right."""

import keras
from keras import ops

from keras_attention._utils.tensor_types import DTypePolicy, Tensor, TensorLike
from keras_attention.metrics._weighted_mean import WeightedMean, find_ids


@keras.saving.register_keras_serializable(package="keras_attention")
class TokenAccuracy(WeightedMean):
    """Computes the fraction of real tokens whose id is predicted.

    Use it in `model.compile(metrics=[...])`. It is the mean over all tokens since the last
    `reset_state`, not the mean of batches, and 0 before the first token.

    Args:
        padding_id: Int, the id of padding in `y_true`, which does not count.
        name: Optional str.
        dtype: Optional dtype of the sums, float32 or wider.

    Call arguments:
        y_true: Ids `(batch, time)`. An id outside the vocabulary is never predicted.
        y_pred: Logits or probabilities `(batch, time, vocabulary)`, or ids `(batch, time)`.
        sample_weight: Optional weights `(batch,)` or `(batch, time)`.

    Raises:
        ValueError: If `padding_id` is not an int, or the shapes do not fit.

    Masking: tokens do not count where the implicit mask of `y_pred` is False.

    Example:

    >>> accuracy = TokenAccuracy()
    >>> accuracy.update_state(keras.ops.array([[4, 2, 0]]), keras.ops.array([[4, 3, 9]]))
    >>> float(accuracy.result())
    0.5
    """

    def __init__(
        self,
        padding_id: int = 0,
        name: str | None = "token_accuracy",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def measure(
        self, labels: Tensor, predictions: Tensor, weights: Tensor
    ) -> tuple[TensorLike, TensorLike]:
        return ops.equal(labels, find_ids(predictions)), weights
