"""The base class of metrics that average over tokens or sequences."""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import wide_compute_dtype
from keras_attention._utils.tensor_types import Config, DTypePolicy, Tensor, TensorLike
from keras_attention.losses.token_crossentropy import LOWEST_ID, weigh_tokens


class WeightedMean(keras.metrics.Metric):
    """Sums weighted values and weights of all batches; a subclass measures the values.

    Both sums are in float32, and what each addition loses to rounding is added to the next
    (Kahan 1965). Sums of billions of tokens are as exact as those of one batch.
    """

    #: The ranks that predictions may have.
    ranks = (2, 3)

    def __init__(self, padding_id: int, name: str | None, dtype: DTypePolicy | None) -> None:
        super().__init__(dtype=wide_compute_dtype(dtype), name=name)
        self.padding_id: int = validation.check_int_at_least(
            type(self).__name__, "padding_id", padding_id, LOWEST_ID
        )
        self.sums, self.lost = (
            self.add_variable((2,), "zeros", dtype=self.dtype, name=name)
            for name in ("sums", "lost")
        )

    def measure(
        self, labels: Tensor, predictions: Tensor, weights: Tensor
    ) -> tuple[TensorLike, TensorLike]:
        """Returns values and their weights, of one shape.

        Args:
            labels: Ids `(batch, time)`, `padding_id` where the weight is 0.
            predictions: Predictions `(batch, time, vocabulary)`, or ids `(batch, time)`.
            weights: Weights of the tokens, `(batch, time)`.
        """
        raise NotImplementedError

    def update_state(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        labels, weights = weigh_tokens(
            *(type(self).__name__, y_true, y_pred, self.padding_id, sample_weight),
            *(self.dtype, self.ranks),
        )
        values, weights = self.measure(labels, ops.convert_to_tensor(y_pred), weights)
        added = ops.stack([ops.sum(ops.cast(values, self.dtype) * weights), ops.sum(weights)])
        added = added + self.lost
        sums = self.sums + added
        self.lost.assign(added - (sums - self.sums))
        self.sums.assign(sums)

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.sums[0], self.sums[1])

    def get_config(self) -> Config:
        return {**super().get_config(), "padding_id": self.padding_id}


def find_ids(predictions):
    """Returns the most probable ids, `(batch, time)`; ids themselves are returned as they are."""
    if len(predictions.shape) == 3:
        predictions = ops.argmax(predictions, axis=-1)
    return ops.cast(predictions, "int32")
