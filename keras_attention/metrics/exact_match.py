"""The fraction of sequences that are predicted right as a whole."""

import keras
from keras import ops

from keras_attention._utils.tensor_types import DTypePolicy, Tensor, TensorLike
from keras_attention.metrics._weighted_mean import WeightedMean, find_ids


@keras.saving.register_keras_serializable(package="keras_attention")
class ExactMatch(WeightedMean):
    """Computes the fraction of sequences of which every real token is predicted.

    In `model.compile` the predictions are teacher-forced, and the fraction is an estimate for a
    greedy search, which feeds the model its own tokens. Pass the ids of a search to measure that.

    A sequence has the largest weight of its tokens; without a real token it does not count. The
    metric is 0 before the first sequence.

    Args:
        padding_id: Int, the id of padding in `y_true`. Predictions at padding do not count, so
            labels should end with the EOS token.
        name: Optional str.
        dtype: Optional dtype of the sums, float32 or wider.

    Call arguments:
        y_true: Ids `(batch, time)`.
        y_pred: Logits or probabilities `(batch, time, vocabulary)`, or ids `(batch, time)`.
        sample_weight: Optional weights `(batch,)` or `(batch, time)`. A token of weight 0 may be
            wrong.

    Raises:
        ValueError: If `padding_id` is not an int, or the shapes do not fit.

    Masking: tokens do not count where the implicit mask of `y_pred` is False.

    Example:

    >>> match = ExactMatch()
    >>> match.update_state(keras.ops.array([[4, 3, 0], [4, 2, 3]]), [[4, 3, 9], [4, 3, 3]])
    >>> float(match.result())
    0.5
    """

    def __init__(
        self,
        padding_id: int = 0,
        name: str | None = "exact_match",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def measure(
        self, labels: Tensor, predictions: Tensor, weights: Tensor
    ) -> tuple[TensorLike, TensorLike]:
        is_right = ops.logical_or(ops.equal(labels, find_ids(predictions)), ops.equal(weights, 0))
        return ops.all(is_right, axis=1), ops.max(weights, axis=1, initial=0)
