"""Guided alignment, Chen et al. 2016 (https://arxiv.org/abs/1607.01628).

    G_t = -sum_i A_ti log alpha_ti             cost "ce", the crossentropy
    G_t = sum_i (A_ti - alpha_ti)^2            cost "mse", the squared error
    G   = sum_t w_t G_t / sum_t w_t            over all target positions of the batch

A is the alignment of a word aligner. Each of its rows is divided by its sum: the links of a target
word share one unit of weight. The whole loss adds `loss_weights` times G to that of the tokens.
Code name -> paper name: `references` -> A, `weights` -> alpha.
"""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32, wide_compute_dtype
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.tensor_types import Config, DTypePolicy, Tensor, TensorLike
from keras_attention.losses._masking import weigh_positions

COSTS = ("ce", "mse")
#: The lowest weight whose log is taken. Softmax weights above it have an exact gradient.
FLOOR = 1e-30
#: The same for float16, in which the gradient of a log, `1 / weight`, has to be finite.
FLOAT16_FLOOR = 2.0**-14


def compute_alignment_costs(
    references: TensorLike, weights: TensorLike, cost: str = "ce"
) -> Tensor:
    """Returns the cost of each target position, `(batch, target)`: 0 for one without a link.

    Args:
        references: Tensor `(batch, target, source)`, at least 0: the links, 0 and 1, or soft ones.
        weights: Float tensor `(batch, target, source)`: the attention weights.
        cost: `"ce"` or `"mse"`.

    Returns:
        Tensor `(batch, target)`, float32 (float64 for float64 weights).

    Example: the target word has two links, so the reference is 0.5 for each of them.

    >>> links, weights = keras.ops.array([[[1, 1, 0]]]), keras.ops.array([[[0.5, 0.25, 0.25]]])
    >>> [round(float(compute_alignment_costs(links, weights, c)[0, 0]), 4) for c in ("ce", "mse")]
    [1.0397, 0.125]
    """
    weights = at_least_float32(weights)
    references = ops.cast(references, weights.dtype)
    totals = ops.sum(references, axis=-1, keepdims=True)
    has_link = totals > 0
    references = references / ops.where(has_link, totals, 1)
    if cost == "mse":
        weights = zero_masked(weights, ops.squeeze(has_link, -1))
        return ops.sum(ops.square(references - weights), axis=-1)
    log_weights = ops.log(ops.where(references > 0, ops.maximum(weights, FLOOR), 1))
    return -ops.sum(references * log_weights, axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class GuidedAlignmentLoss(keras.losses.Loss):
    """Pulls attention weights towards the links of a word aligner, or of known spans.

    Use it in `model.compile` of a model with two outputs, the logits and the attention weights of
    its decoder, `decoder(..., return_attention_scores=True)`. Each has its loss, and
    `loss_weights` is the weight of the alignment. Labels of the second output are the links:
    `keras_attention.data.read_links` reads them from Pharaoh files, and `links_to_array` makes
    the array.

    The loss is the mean over the target positions that have a link, of weight 1 or their sample
    weight, and 0 without any. Positions without a link, such as EOS, padding and words that the
    aligner left alone, do not count.

    Args:
        cost: `"ce"`, the crossentropy, or `"mse"`, the sum of squared errors of a target
            position.
        name: Optional str.
        dtype: Optional dtype of the computation, float32 or wider; half precision is raised to
            float32.

    Call arguments:
        y_true: Tensor `(batch, target, source)` of any dtype: 0 and 1, or soft links, which are
            divided by the sum of their row. Negative numbers count as 0.
        y_pred: Float tensor `(batch, target, source)` of any dtype: weights, not scores.
        sample_weight: Optional weights `(batch,)` or `(batch, target)`.

    Returns:
        A scalar, float32 or float64.

    Raises:
        ValueError: If `cost` is unknown, or the shapes do not fit.

    Masking: reads the implicit mask of `y_pred`. Weights of positions that do not count may be any
        number, NaN too, and get the gradient 0. So does, with `"ce"`, a linked weight below 1e-30
        (2^-14 for float16 weights), whose log is that of this number.

    Example: the second target word has no link.

    >>> loss = GuidedAlignmentLoss()
    >>> links = keras.ops.array([[[0, 1, 0], [0, 0, 0]]])
    >>> weights = keras.ops.array([[[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]])
    >>> round(float(loss(links, weights)), 4)  # -log 0.5
    0.6931

    Reference: Chen et al. 2016, https://arxiv.org/abs/1607.01628.
    """

    def __init__(
        self,
        cost: str = "ce",
        name: str | None = "guided_alignment_loss",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(name, "mean_with_sample_weight", wide_compute_dtype(dtype))
        self.cost: str = validation.check_one_of("GuidedAlignmentLoss", "cost", cost, COSTS)

    def __call__(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> Tensor:
        owner, axes = "GuidedAlignmentLoss", "(batch, target, source)"
        references, weights = map(ops.convert_to_tensor, (y_true, y_pred))
        for name, tensor in (("y_true", references), ("y_pred", weights)):
            validation.check_rank(owner, name, tensor, (3,), axes)
        for axis in range(3):
            validation.check_same_size(owner, axis, y_true=references, y_pred=weights)
        references = ops.maximum(ops.cast(references, self.dtype), 0)
        has_link = ops.any(references > 0, axis=-1)
        counts = weigh_positions(owner, has_link, y_pred, sample_weight, self.dtype)
        references = zero_masked(references, ops.not_equal(counts, 0))
        if self.cost == "ce" and keras.backend.standardize_dtype(weights.dtype) == "float16":
            weights = ops.maximum(weights, FLOAT16_FLOOR)
        return super().__call__(references, weights, sample_weight=counts)

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> Tensor:
        return compute_alignment_costs(y_true, y_pred, self.cost)

    def get_config(self) -> Config:
        return {"cost": self.cost, "name": self.name, "dtype": self.dtype}
