"""Crossentropy of tokens with label smoothing, Szegedy et al. 2016 (https://arxiv.org/abs/1512.00567).

    loss_t = -(1 - eps) log p_t[y_t] - eps / V sum_v log p_t[v]      section 7, with u(v) = 1 / V
    loss   = sum_t w_t loss_t / sum_t w_t                            over all tokens of the batch

The label smoothing of Vaswani et al. 2017, section 5.4, is this one: eps is spread over the whole
vocabulary, the label and padding included. Code name -> paper name: `label_smoothing` -> eps,
`log_probs` -> log p, `labels` -> y, `weights` -> w, which is 0 for padding.
"""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32, wide_compute_dtype
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Config, DTypePolicy, Tensor, TensorLike
from keras_attention.losses._masking import weigh_positions

LOWEST_ID = -(2**31)


def token_crossentropy(
    owner: str,
    labels: TensorLike,
    predictions: TensorLike,
    padding_id: int = 0,
    label_smoothing: float = 0.0,
    from_logits: bool = True,
) -> Tensor:
    """Returns the loss of every token, `(batch, time)`: 0 for padding, NaN for an unknown id.

    Args:
        owner: Str, the name of the class in errors.
        labels: Ids `(batch, time)`, of any dtype.
        predictions: Float tensor `(batch, time, vocabulary)`: logits, or probabilities.
        padding_id: Int, the id that is ignored.
        label_smoothing: Float in [0, 1).
        from_logits: Whether the predictions are logits.

    Raises:
        ValueError: If the labels are concrete, not traced, and one is not in the vocabulary.
    """
    is_token = ops.not_equal(labels, padding_id)
    ids = ops.cast(ops.where(is_token, labels, 0), "int32")
    if predictions.shape[-1] is not None:
        validation.check_ids_in_vocabulary(owner, "y_true", ids, predictions.shape[-1])
    logits = zero_masked(at_least_float32(predictions), is_token)
    if not from_logits:
        logits = ops.log(ops.maximum(logits, keras.config.epsilon()))
    # Subtracted first, so that large logits lose no digits. Comparing every id with the label costs
    # less than a gather, whose gradient is a scatter.
    largest = ops.max(logits, axis=-1, keepdims=True, initial=-float("inf"))
    logits = logits - ops.stop_gradient(largest)
    vocabulary_size = get_shape(logits)[-1]
    is_label = ops.equal(ops.arange(vocabulary_size, dtype="int32"), ops.expand_dims(ids, -1))
    label_logits = ops.sum(ops.where(is_label, logits, 0), axis=-1)
    losses = ops.logsumexp(logits, axis=-1) - (1 - label_smoothing) * label_logits
    if label_smoothing:
        losses = losses - label_smoothing * ops.mean(logits, axis=-1)
    is_known = ops.logical_and(ids >= 0, ids < vocabulary_size)
    return ops.where(is_token, ops.where(is_known, losses, float("nan")), 0)


def weigh_tokens(
    owner: str,
    y_true: TensorLike,
    y_pred: TensorLike,
    padding_id: int,
    sample_weight: TensorLike | None,
    dtype: str,
    ranks: tuple[int, ...] = (3,),
) -> tuple[Tensor, Tensor]:
    """Returns labels, `padding_id` where they do not count, and weights, both `(batch, time)`.

    Args:
        owner: Str, the name of the class in errors.
        y_true: Ids `(batch, time)`.
        y_pred: Predictions `(batch, time, ...)`, which may carry an implicit mask.
        padding_id: Int, the id that does not count.
        sample_weight: None, or weights `(batch,)` or `(batch, time)`.
        dtype: Str, the dtype of the weights.
        ranks: The ranks that `y_pred` may have.

    Raises:
        ValueError: If the shapes do not fit.
    """
    labels, predictions = map(ops.convert_to_tensor, (y_true, y_pred))
    axes = "(batch, time, vocabulary)" if 2 not in ranks else "(batch, time[, vocabulary])"
    validation.check_rank(owner, "y_true", labels, (2,), "(batch, time)")
    validation.check_rank(owner, "y_pred", predictions, ranks, axes)
    for axis in (0, 1):
        validation.check_same_size(owner, axis, y_true=labels, y_pred=predictions)
    labels = ops.cast(labels, "int32")
    is_token = ops.not_equal(labels, padding_id)
    weights = weigh_positions(owner, is_token, y_pred, sample_weight, dtype)
    return ops.where(ops.not_equal(weights, 0), labels, padding_id), weights


@keras.saving.register_keras_serializable(package="keras_attention")
class TokenCrossentropy(keras.losses.Loss):
    """Averages the crossentropy over the real tokens of a batch, with label smoothing.

    Use it in `model.compile` for decoders and taggers. Without smoothing and weights it equals
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)`.

    The loss is the sum of loss times weight over the sum of weights, as Keras' reduction
    `"mean_with_sample_weight"` has it, and 0 without any real token. The weight of a token is its
    sample weight, or 1; it is 0 for `padding_id` and where the implicit mask of `y_pred` is False.
    Weights that are all equal do not change the loss. `fit` shows the mean of the batches' losses;
    `keras_attention.metrics.Perplexity` averages over tokens.

    An id outside the vocabulary raises a `ValueError` eagerly. A compiled step cannot raise: its
    loss becomes NaN, at which `keras.callbacks.TerminateOnNaN` stops. The gradients leave such a
    token out, so the model survives.

    Args:
        padding_id: Int, the id of padding in `y_true`. An id that never occurs, such as -1, ignores
            none.
        label_smoothing: Float in [0, 1), the mass that is spread evenly over the whole vocabulary,
            the label and padding included.
        from_logits: Whether `y_pred` are logits. Probabilities below `keras.config.epsilon()` are
            raised to it; they are normalized to the sum 1.
        name: Optional str.
        dtype: Optional dtype of the computation, float32 or wider; half precision is raised to
            float32.

    Call arguments:
        y_true: Ids `(batch, time)`.
        y_pred: Float tensor `(batch, time, vocabulary)`, of any dtype.
        sample_weight: Optional weights `(batch,)` or `(batch, time)`.

    Returns:
        A scalar, float32 or float64.

    Raises:
        ValueError: If an argument is invalid, the shapes do not fit, or an id that is not traced
            lies outside the vocabulary.

    Masking: reads the implicit mask of `y_pred`. Predictions at padding may be any number, NaN too,
        and get the gradient 0; with `sample_weight`, where it is 0 likewise.

    Example:

    >>> loss = TokenCrossentropy()
    >>> logits = keras.ops.array([[[0.0, 2.0, 1.0], [5.0, 0.0, 0.0]]])
    >>> round(float(loss(keras.ops.array([[1, 0]]), logits)), 4)  # the second is padding
    0.4076

    Reference: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7.
    """

    def __init__(
        self,
        padding_id: int = 0,
        label_smoothing: float = 0.0,
        from_logits: bool = True,
        name: str | None = "token_crossentropy",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(name, "mean_with_sample_weight", wide_compute_dtype(dtype))
        owner = "TokenCrossentropy"
        self.padding_id: int = validation.check_int_at_least(
            owner, "padding_id", padding_id, LOWEST_ID
        )
        self.label_smoothing: float = validation.check_number_in_range(
            owner, "label_smoothing", label_smoothing, 0, 1, exclude_high=True
        )
        self.from_logits: bool = from_logits

    def __call__(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> Tensor:
        labels, weights = weigh_tokens(
            "TokenCrossentropy", y_true, y_pred, self.padding_id, sample_weight, self.dtype
        )
        return super().__call__(labels, y_pred, sample_weight=weights)

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> Tensor:
        return token_crossentropy(
            "TokenCrossentropy",
            y_true,
            y_pred,
            self.padding_id,
            self.label_smoothing,
            self.from_logits,
        )

    def get_config(self) -> Config:
        return {
            "padding_id": self.padding_id,
            "label_smoothing": self.label_smoothing,
            "from_logits": self.from_logits,
            "name": self.name,
            "dtype": self.dtype,
        }
