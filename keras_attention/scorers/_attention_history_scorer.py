"""Base classes of the scorers that use earlier attention weights."""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import OutputShape, Shape, Tensor, TensorLike
from keras_attention.scorers._tanh_scorer import TanhScorer
from keras_attention.scorers.additive import additive_scores
from keras_attention.scorers.base import Scorer


def check_odd_kernel_size(owner: str, kernel_size: int) -> int:
    """Returns `kernel_size` if it is a positive odd int."""
    size = validation.check_positive_int(owner, "kernel_size", kernel_size)
    if size % 2 == 0:
        raise ValueError(
            f"{owner} expects an odd `kernel_size`, so that a filter has a center. "
            f"Received: kernel_size={kernel_size!r}"
        )
    return size


class PreviousWeightsScorer(Scorer):
    """Checks the shape of the earlier weights; abstract.

    A subclass sets `reads_weights` and defines `score`.
    """

    def compute_output_shape(
        self, query_shape: Shape, key_shape: Shape, previous_weights_shape: Shape | None = None
    ) -> OutputShape:
        scores_shape = super().compute_output_shape(query_shape, key_shape)
        if previous_weights_shape is not None:
            weights = keras.KerasTensor(previous_weights_shape)
            self.check_previous_weights(query_shape, key_shape, weights)
        return scores_shape

    def check_previous_weights(
        self, query_shape: Shape, key_shape: Shape, previous_weights: TensorLike | None
    ) -> None:
        if previous_weights is not None:
            shape = (*tuple(query_shape)[:-1], tuple(key_shape)[1])
            axes = "(batch, query, key)" if len(shape) == 3 else "(batch, key)"
            validation.check_previous_weights(type(self).__name__, previous_weights, shape, axes)


class AttentionHistoryScorer(PreviousWeightsScorer, TanhScorer):
    """Adds features of earlier attention weights inside the tanh; abstract.

    It extends `_tanh_scorer`: f_j is computed from the weights that earlier steps gave to key j.
    A subclass sets `reads_weights`, adds its weights in `build_features` and defines
    `features`.
    """

    def build_features(self) -> None:
        """Adds the weights of `features`."""
        raise NotImplementedError

    def features(self, previous_weights: Tensor) -> TensorLike:
        """Returns `(batch, query, key, units)` for weights `(batch, query, key)`."""
        raise NotImplementedError

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        query, features = self.project_query(query), None
        if previous_weights is not None:
            self.check_previous_weights(query.shape, prepared.shape, previous_weights)
            features = self.features(ops.cast(previous_weights, self.compute_dtype))
        vector = self.scoring_vector()
        return additive_scores(query, prepared, vector, blockwise=False, features=features)
