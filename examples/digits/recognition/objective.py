"""What RAM minimizes, Mnih et al. 2014 (https://arxiv.org/abs/1406.6247), section 3.2.

    loss = -log p(digit) + mean_t (b_t - R)^2 - lambda sum_t log pi(l_t) (R - stop(b_t))

R is 1 where the likeliest digit is right. The first term trains what is seen, the third where to
look, and the second the baseline that makes the third less noisy. Code name -> paper name:
`baselines` -> b, `weight` -> lambda, 0.01 in what is known of the authors' code.
"""

import tensorflow as tf

from examples.training.objectives import Objective
from keras_attention import validation


class RecognitionObjective(Objective):
    """The hybrid loss of RAM while training; cross-entropy and error where it is measured.

    Labels are `{"digit": (batch,)}`, from 1 on, 0 for a row that is no picture. Outputs are those
    of `examples.models.ram`.

    Args:
        weight: Number of at least 0, of the reward's term.

    Raises:
        ValueError: If `weight` is less than 0.

    Example:

    >>> outputs = {"logits": tf.constant([[0.0, 2.0]]), "log_pi": tf.constant([[-1.0]])}
    >>> outputs["baselines"] = tf.constant([[0.5]])
    >>> sums = RecognitionObjective(0.1).sums(outputs, {"digit": tf.constant([2])})
    >>> [round(float(value), 3) for value in sums]  # 0.127 + 0.25 + 0.1 * 0.5
    [0.427, 1.0]
    """

    unit = "pictures"
    larger_is_better = {"loss": False, "error": False}

    def __init__(self, weight: float = 0.01):
        self.weight = validation.check_number_in_range(
            "RecognitionObjective", "weight", weight, 0.0
        )

    def sums(self, outputs, labels):
        losses, wrong, shown = _judged(outputs, labels)
        if "log_pi" in outputs:
            reward, baselines = (1.0 - wrong)[:, None], outputs["baselines"]
            losses += tf.reduce_mean(tf.square(baselines - reward), axis=1)
            advantage = reward - tf.stop_gradient(baselines)
            losses -= self.weight * tf.reduce_sum(outputs["log_pi"] * advantage, axis=1)
        return tf.reduce_sum(shown * losses), tf.reduce_sum(shown)

    def measured(self, outputs, labels):
        losses, wrong, shown = _judged(outputs, labels)
        return {
            "loss": tf.reduce_sum(shown * losses),
            "count": tf.reduce_sum(shown),
            "wrong": tf.reduce_sum(shown * wrong),
        }

    def numbers(self, sums):
        return {"loss": sums["loss"] / sums["count"], "error": sums["wrong"] / sums["count"]}

    def text(self, row):
        return [f"{100 * row['dev_error']:.2f} % of the digits wrong"]


def _judged(outputs, labels):
    """Cross-entropy, wrong or not, and picture or not, `(batch,)` float32 each."""
    logits, digit = tf.cast(outputs["logits"], "float32"), tf.maximum(labels["digit"] - 1, 0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(digit, logits)
    wrong = tf.argmax(logits, axis=-1, output_type=digit.dtype) != digit
    return losses, tf.cast(wrong, "float32"), tf.cast(labels["digit"] > 0, "float32")
