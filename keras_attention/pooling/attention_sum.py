"""Attention sum over mentions, Kadlec et al. 2016 (https://arxiv.org/abs/1603.01547, section 3).

    P(w | document) = sum of weights_i over positions i where document_i = w

A distribution over positions becomes a distribution over words: the weights of a word's repeated
mentions add up. With a loss of `-safe_log(P(answer))` the answer may be absent.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)


def vocabulary_probabilities(weights: TensorLike, ids: TensorLike, vocabulary_size: int) -> Tensor:
    """Returns P of every word, `(batch, vocabulary)`: a scatter-add of weights at ids."""
    batch = get_shape(ids)[0]
    if isinstance(batch, int) and batch == 0:  # PyTorch cannot sum zero segments
        return ops.zeros((0, vocabulary_size), dtype=weights.dtype)
    rows = ops.arange(batch, dtype="int32")[:, None] * vocabulary_size
    summed = ops.segment_sum(
        ops.reshape(weights, (-1,)),
        ops.reshape(rows + ops.cast(ids, "int32"), (-1,)),
        num_segments=batch * vocabulary_size,
    )
    return ops.reshape(summed, (-1, vocabulary_size))


def candidate_probabilities(
    weights: TensorLike, ids: TensorLike, candidate_ids: TensorLike
) -> Tensor:
    """Returns P of some words, `(batch, candidates)`."""
    same = ops.equal(ops.cast(candidate_ids, ids.dtype)[:, :, None], ids[:, None, :])
    return ops.einsum("bcd,bd->bc", ops.cast(same, weights.dtype), weights)


def safe_log(probabilities: TensorLike, floor: float = 1e-12) -> Tensor:
    """Returns the log, in float32, of probabilities that may be exactly 0.

    Below `floor` the result is `log(floor)` and the gradient 0. So an answer that does
    not occur in its document neither breaks the loss nor changes the weights.

    Example:

    >>> round(float(safe_log(keras.ops.array(0.0))), 3)
    -27.631
    """
    if keras.backend.standardize_dtype(probabilities.dtype) != "float64":
        probabilities = ops.cast(probabilities, "float32")
    return ops.log(ops.maximum(probabilities, floor))


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionSum(Layer):
    """Converts weights over the positions of a document into probabilities of its words.

    Use it after `AttentionOverAttention`, or after any attention over a document whose
    answer is one of its words. The word with the largest sum may differ from that with the
    largest single weight.

    Args:
        vocabulary_size: Positive int, the number of words, for probabilities of all of them.
            None requires `candidate_ids` in the call.

    Call arguments:
        weights: Float tensor `(batch, document)`.
        document_ids: Int tensor `(batch, document)`; padding must have weight 0.
        candidate_ids: Int tensor `(batch, candidates)`, the words to score.

    Returns:
        Probabilities in float32: of all words, `(batch, vocabulary_size)`, or of the candidates,
        `(batch, candidates)`. They are not scaled to sum to 1 over the candidates.

    Raises:
        ValueError: If `vocabulary_size` is not a positive int, the call has neither or both of
            vocabulary and candidates, or the tensors do not fit together.

    Masking: ignores masks: the weights of masked positions are 0. The result carries no mask.

    Example:

    >>> weights = keras.ops.array([[0.5, 0.2, 0.3]])
    >>> ids = keras.ops.array([[7, 3, 7]])
    >>> probabilities = AttentionSum()(weights, ids, keras.ops.array([[7, 3, 4]]))
    >>> [round(float(probability), 3) for probability in probabilities[0]]
    [0.8, 0.2, 0.0]

    Reference: Kadlec et al. 2016, https://arxiv.org/abs/1603.01547, section 3; Cui et al. 2017,
    https://arxiv.org/abs/1607.04423, equation 10.
    """

    def __init__(self, vocabulary_size: int | None = None, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # many small weights are summed, which needs float32
        if vocabulary_size is not None:
            validation.check_positive_int("AttentionSum", "vocabulary_size", vocabulary_size)
        self.vocabulary_size = vocabulary_size

    def build(
        self,
        weights_shape: Shape,
        document_ids_shape: Shape,
        candidate_ids_shape: Shape | None = None,
    ) -> None:
        self.built = True

    def call(
        self, weights: Tensor, document_ids: Tensor, candidate_ids: Tensor | None = None
    ) -> TensorLike:
        self._check_inputs(weights, document_ids, candidate_ids)
        weights = ops.cast(weights, wide_dtype(self.compute_dtype))
        if candidate_ids is not None:
            return candidate_probabilities(weights, document_ids, candidate_ids)
        owner = "AttentionSum"
        validation.check_ids_in_vocabulary(
            owner, "document_ids", document_ids, self.vocabulary_size
        )
        return vocabulary_probabilities(weights, document_ids, self.vocabulary_size)

    def _check_inputs(self, weights, document_ids, candidate_ids):
        owner = "AttentionSum"
        shape = None if candidate_ids is None else validation.static_shape(candidate_ids)
        if (candidate_ids is None) == (self.vocabulary_size is None):
            raise ValueError(
                f"{owner} expects either `vocabulary_size`, for all words, or `candidate_ids` in "
                f"the call, for some. Received: vocabulary_size={self.vocabulary_size}, "
                f"candidate_ids={shape}"
            )
        named = {"weights": weights, "document_ids": document_ids}
        if candidate_ids is not None:
            named["candidate_ids"] = candidate_ids
        for name, tensor in named.items():
            validation.check_rank(owner, name, tensor, (2,))
        validation.check_same_size(owner, 0, **named)
        validation.check_same_size(owner, 1, weights=weights, document_ids=document_ids)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def compute_output_shape(
        self,
        weights_shape: Shape,
        document_ids_shape: Shape,
        candidate_ids_shape: Shape | None = None,
    ) -> OutputShape:
        self._check_inputs(weights_shape, document_ids_shape, candidate_ids_shape)
        size = self.vocabulary_size if candidate_ids_shape is None else candidate_ids_shape[1]
        return (weights_shape[0], size)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        tensors = call.weights, call.document_ids, call.candidate_ids
        shape = self.compute_output_shape(*(None if one is None else one.shape for one in tensors))
        return keras.KerasTensor(shape, dtype=wide_dtype(self.compute_dtype))

    def get_config(self) -> Config:
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size}
