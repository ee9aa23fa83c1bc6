"""REINFORCE for hard attention, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    r = log p(y | s) = sum_t log p(y_t | s, y_<t)
    loss = - lambda_r * stop(r - b) * sum_t log alpha_t[s_t]  -  lambda_e * sum_t H[alpha_t]
    b <- 0.9 b + 0.1 * batch mean of r                              after use, from 0

These are the terms of equation 12 that backpropagation through the words does not give. Code
name -> paper name: `loss_weight` -> lambda_r, `entropy_weight` -> lambda_e, `baseline` -> b,
`targets` -> y, `log_alpha` -> log alpha_t[s_t], `entropy` -> H[alpha_t]. The reward is a
log-likelihood, higher is better: samples that made the words more probable become more probable.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.dtypes import at_least_float32, wide_dtype
from keras_attention._utils.masked_sequences import zero_masked
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
from keras_attention.losses._masking import batch_mean

REWARDS = ("sum", "mean")


def target_log_probs(
    logits: TensorLike, targets: TensorLike, mask: TensorLike | None = None
) -> Tensor:
    """Returns `log p(y_t)` for each target, 0 where the mask is False.

    Args:
        logits: Float tensor `(batch, time, vocabulary)`.
        targets: Int tensor `(batch, time)`.
        mask: Optional boolean `(batch, time)`.

    Returns:
        Tensor `(batch, time)`, float32 (float64 for float64 logits).

    Example:

    >>> log_probs = target_log_probs(keras.ops.zeros((1, 2, 4)), keras.ops.array([[1, 3]]))
    >>> [round(float(value), 4) for value in log_probs[0]]
    [-1.3863, -1.3863]
    """
    log_probs = ops.log_softmax(at_least_float32(zero_masked(logits, mask)), axis=-1)
    targets = ops.cast(zero_masked(targets, mask), "int32")
    chosen = ops.take_along_axis(log_probs, ops.expand_dims(targets, -1), axis=-1)
    return zero_masked(ops.squeeze(chosen, -1), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class ReinforceLoss(Layer):
    """Adds the loss that trains the locations of hard attention; returns the logits.

    Use it after a decoder with `HardAttention`, called with `return_auxiliary_outputs=True`, in a
    model that takes the targets as an input. Compile the words' own loss as usual. Only training,
    where locations are sampled, adds this loss and updates the baseline.

    The words' loss and this one are added. With a loss that averages over words, such as Keras'
    cross-entropy, `loss_weight` weighs the reward of a whole sentence against the mean loss of
    a word. The authors use 0.1 with `reward="mean"`.

    Args:
        loss_weight: Number of at least 0, the lambda_r.
        entropy_weight: Number of at least 0, the lambda_e, the weight of the entropy bonus.
        baseline_momentum: Float in [0, 1], the decay rate of the baseline's moving average.
        reward: "sum", the log-likelihood of a sentence, as in the paper; or "mean", divided by
            its number of words, as in the authors' code.

    Call arguments:
        logits: Float tensor `(batch, time, vocabulary)`, returned unchanged.
        targets: Int tensor `(batch, time)`: the labels of the logits.
        log_alpha: Float tensor `(batch, time)`, see `HardAttention`; 0 for examples that used
            the mean, whose term vanishes.
        entropy: Float tensor `(batch, time)`, see `HardAttention`.
        mask: Boolean `(batch, time)`, True for real targets. Pass it explicitly: ids carry no
            mask.
        training: Whether to add the loss and update the baseline.

    Returns:
        `logits`, unchanged.

    Raises:
        ValueError: If an argument is invalid, or the shapes do not fit.

    Masking: masked steps are in no sum, and fully masked examples in no mean. A mask attached
        to `logits` is propagated.

    Example:

    >>> loss = ReinforceLoss()
    >>> logits, targets = keras.ops.zeros((1, 2, 4)), keras.ops.array([[1, 3]])
    >>> drawn = {"log_alpha": keras.ops.array([[-1.0, -1.0]]), "entropy": keras.ops.zeros((1, 2))}
    >>> logits = loss(logits, targets, **drawn, training=True)
    >>> round(float(loss.losses[0]), 4)  # -(2 log 1/4 - 0) * -2
    -5.5452
    >>> round(float(loss.baseline), 4)
    -0.2773

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    is_recomputable = False

    def __init__(
        self,
        loss_weight: float = 1.0,
        entropy_weight: float = 0.002,
        baseline_momentum: float = 0.9,
        reward: str = "sum",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # logits keep their dtype, the loss is computed in float32
        owner = "ReinforceLoss"
        self.loss_weight: float = validation.check_number_in_range(
            owner, "loss_weight", loss_weight, 0
        )
        self.entropy_weight: float = validation.check_number_in_range(
            owner, "entropy_weight", entropy_weight, 0
        )
        self.baseline_momentum: float = validation.check_number_in_range(
            owner, "baseline_momentum", baseline_momentum, 0, 1
        )
        self.reward: str = validation.check_one_of(owner, "reward", reward, REWARDS)

    def build(self, logits_shape: Shape, *args: Shape, **kwargs: Shape) -> None:
        dtype = wide_dtype(self.variable_dtype)
        self.baseline: keras.Variable = self.add_weight(
            (), "zeros", dtype=dtype, trainable=False, autocast=False, name="baseline"
        )
        self.built = True

    def call(
        self,
        logits: Tensor,
        targets: Tensor,
        log_alpha: Tensor,
        entropy: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> TensorLike:
        mask = self._check_mask(logits, targets, log_alpha, entropy, mask)
        if not training:
            return logits
        valid = None if mask is None else ops.any(mask, axis=-1)
        dtype = self.baseline.dtype
        rewards = ops.stop_gradient(ops.cast(self._rewards(logits, targets, mask), dtype))
        log_alpha, entropy = (
            ops.sum(zero_masked(ops.cast(tensor, dtype), mask), axis=-1)
            for tensor in (log_alpha, entropy)
        )
        baseline = ops.convert_to_tensor(self.baseline)
        losses = self.loss_weight * (rewards - baseline) * log_alpha + self.entropy_weight * entropy
        self.add_loss(-batch_mean(losses, valid))
        baseline_change = (1 - self.baseline_momentum) * (batch_mean(rewards, valid) - baseline)
        if valid is not None:
            baseline_change = ops.where(ops.any(valid), baseline_change, 0)
        self.baseline.assign(baseline + baseline_change)
        return logits

    def _rewards(self, logits, targets, mask):
        """Returns the reward of each example, `(batch,)`."""
        rewards = ops.sum(target_log_probs(logits, targets, mask), axis=-1)
        if self.reward == "sum":
            return rewards
        if mask is None:
            return rewards / ops.cast(get_shape(targets)[1], rewards.dtype)
        return rewards / ops.maximum(ops.sum(ops.cast(mask, rewards.dtype), axis=-1), 1)

    def _check_mask(self, logits, targets, log_alpha, entropy, mask):
        """Returns the mask as booleans, and checks the shapes."""
        self._check_shapes(logits, targets, log_alpha, entropy)
        return validation.fit_mask("ReinforceLoss", "mask", mask, logits, "(batch, time)")

    def _check_shapes(self, logits, targets, log_alpha, entropy):
        """Checks the shapes, of tensors or given as such."""
        owner = "ReinforceLoss"
        validation.check_rank(owner, "logits", logits, (3,), "(batch, time, vocabulary)")
        named = {"targets": targets, "log_alpha": log_alpha, "entropy": entropy}
        for name, tensor in named.items():
            validation.check_rank(owner, name, tensor, (2,), "(batch, time)")
        for axis in (0, 1):
            validation.check_same_size(owner, axis, logits=logits, **named)

    def compute_mask(self, logits: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self,
        logits_shape: Shape,
        targets_shape: Shape,
        log_alpha_shape: Shape,
        entropy_shape: Shape,
        **kwargs: Shape,
    ) -> OutputShape:
        self._check_shapes(logits_shape, targets_shape, log_alpha_shape, entropy_shape)
        return tuple(logits_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        logits = call.logits
        self._check_mask(logits, call.targets, call.log_alpha, call.entropy, call.mask)
        return keras.KerasTensor(logits.shape, dtype=logits.dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "loss_weight": self.loss_weight,
            "entropy_weight": self.entropy_weight,
            "baseline_momentum": self.baseline_momentum,
            "reward": self.reward,
        }
