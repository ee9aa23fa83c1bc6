"""REINFORCE for hard attention, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    r = log p(y | s) = sum_t log p(y_t | s, y_<t)
    loss = - lambda_r * stop(r - b) * sum_t log alpha_t[s_t]  -  lambda_e * sum_t H[alpha_t]
    b <- 0.9 b + 0.1 * batch mean of r                              after use, from 0

the terms of equation 12 that ordinary backpropagation through the words does not give. Code
name -> paper name: `weight` -> lambda_r, `entropy_weight` -> lambda_e, `baseline` -> b,
`targets` -> y, `log_alpha` -> log alpha_t[s_t], `entropy` -> H[alpha_t]. The reward is a
log-likelihood, higher is better: a sample that made the words likelier than usual gets likelier.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.losses.masking import batch_mean, silenced
from keras_attention.precision import at_least_float32, wide_dtype

REWARDS = ("sum", "mean")


def target_log_probs(logits, targets, mask=None):
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
    log_probs = ops.log_softmax(at_least_float32(silenced(logits, mask)), axis=-1)
    targets = ops.cast(silenced(targets, mask), "int32")
    chosen = ops.take_along_axis(log_probs, ops.expand_dims(targets, -1), axis=-1)
    return silenced(ops.squeeze(chosen, -1), mask)


@keras.saving.register_keras_serializable(package="keras_attention")
class ReinforceLoss(Layer):
    """Adds the loss from which hard attention learns where to look, and lets logits pass.

    Use it after a decoder with `HardAttention`, called with `return_details=True`, in a model
    that takes the targets as an input; the words' own loss is compiled as usual. The loss is
    there in training alone, where locations are drawn, and so is the update of the baseline.

    The words' loss and this one are added: with a loss that averages over words, as Keras'
    cross-entropy does, `weight` trades a reward for a whole sentence against the mean cost of
    a word. The authors use 0.1 with `reward="mean"`.

    Args:
        weight: Number of at least 0, the lambda_r.
        entropy_weight: Number of at least 0, the lambda_e, the price of looking nowhere else.
        baseline_momentum: Float in [0, 1], the share of the baseline that stays.
        reward: "sum", the log-likelihood of a sentence, as in the paper; or "mean", divided by
            its number of words, as in the authors' code.

    Call arguments:
        logits: Float tensor `(batch, time, vocabulary)`, returned as it is.
        targets: Int tensor `(batch, time)`: the labels of the logits.
        log_alpha: Float tensor `(batch, time)`, see `HardAttention`; 0 for examples that read
            the mean, whose term drops out.
        entropy: Float tensor `(batch, time)`, see `HardAttention`.
        mask: Boolean `(batch, time)`, True for real targets. Give it: nothing is attached to
            ids.
        training: Whether the loss is added and the baseline moves.

    Returns:
        `logits`, unchanged.

    Raises:
        ValueError: If an argument is not as above, or the shapes do not fit.

    Masking: padded steps are in no sum, and rows of padding alone in no mean. A mask attached
        to `logits` stays there.

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

    def __init__(
        self, weight=1.0, entropy_weight=0.002, baseline_momentum=0.9, reward="sum", **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # logits pass in their own dtype, the loss is taken in float32
        owner = "ReinforceLoss"
        self.weight = checks.number_in_range(owner, "weight", weight, 0)
        self.entropy_weight = checks.number_in_range(owner, "entropy_weight", entropy_weight, 0)
        self.baseline_momentum = checks.number_in_range(
            owner, "baseline_momentum", baseline_momentum, 0, 1
        )
        self.reward = checks.one_of(owner, "reward", reward, REWARDS)

    def build(self, logits_shape, *args, **kwargs):
        dtype = wide_dtype(self.variable_dtype)
        self.baseline = self.add_weight(
            (), "zeros", dtype=dtype, trainable=False, autocast=False, name="baseline"
        )
        self.built = True

    def call(self, logits, targets, log_alpha, entropy, mask=None, training=None):
        mask = self._checked_mask(logits, targets, log_alpha, entropy, mask)
        if not training:
            return logits
        real = None if mask is None else ops.any(mask, axis=-1)
        dtype = self.baseline.dtype
        rewards = ops.stop_gradient(ops.cast(self._rewards(logits, targets, mask), dtype))
        log_alpha, entropy = (
            ops.sum(silenced(ops.cast(tensor, dtype), mask), axis=-1)
            for tensor in (log_alpha, entropy)
        )
        baseline = ops.convert_to_tensor(self.baseline)
        losses = self.weight * (rewards - baseline) * log_alpha + self.entropy_weight * entropy
        self.add_loss(-batch_mean(losses, real))
        moved = (1 - self.baseline_momentum) * (batch_mean(rewards, real) - baseline)
        if real is not None:
            moved = ops.where(ops.any(real), moved, 0)
        self.baseline.assign(baseline + moved)
        return logits

    def _rewards(self, logits, targets, mask):
        """Returns the reward of each example, `(batch,)`."""
        rewards = ops.sum(target_log_probs(logits, targets, mask), axis=-1)
        if self.reward == "sum":
            return rewards
        if mask is None:
            return rewards / ops.cast(ops.shape(targets)[1], rewards.dtype)
        return rewards / ops.maximum(ops.sum(ops.cast(mask, rewards.dtype), axis=-1), 1)

    def _checked_mask(self, logits, targets, log_alpha, entropy, mask):
        """Returns the mask as booleans, and checks the shapes."""
        owner = "ReinforceLoss"
        checks.rank(owner, "logits", logits, (3,), "(batch, time, vocabulary)")
        named = {"targets": targets, "log_alpha": log_alpha, "entropy": entropy}
        for name, tensor in named.items():
            checks.rank(owner, name, tensor, (2,), "(batch, time)")
        for axis in (0, 1):
            checks.same_dim(owner, axis, logits=logits, **named)
        return checks.boolean_mask(owner, "mask", mask, tuple(logits.shape[:2]), "(batch, time)")

    def compute_mask(self, logits, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, logits_shape, *args, **kwargs):
        return tuple(logits_shape)

    def compute_output_spec(self, logits, targets, log_alpha, entropy, mask=None, training=None):
        self._checked_mask(logits, targets, log_alpha, entropy, mask)
        return keras.KerasTensor(logits.shape, dtype=logits.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "weight": self.weight,
            "entropy_weight": self.entropy_weight,
            "baseline_momentum": self.baseline_momentum,
            "reward": self.reward,
        }
