"""What a training minimizes and what an evaluation measures.

An objective is handed to the loop. Its loss is a sum and a count, because two batches, or two
replicas, are joined by adding both before the one division. `unit` names what is counted: it is
what "tokens a second" says for a translator.
"""

import math

import tensorflow as tf

from examples.training import losses


class Objective:
    """What the loop expects of an objective.

    Attributes:
        unit: Plural of what the loss is a mean over; a column of `history.csv`.
        larger_is_better: Dict from the names that `numbers` gives, and that may decide which
            weights are best, to whether larger is better.
    """

    unit = "tokens"
    larger_is_better = {"loss": False}

    def sums(self, outputs, labels):
        """Returns the loss sum and the count of a training batch, two float32 scalars."""
        raise NotImplementedError

    def counted(self, labels):
        """Returns where labels count, boolean `(batch, time)`, for models that add mean losses.

        Such a loss is a mean over rows, which need not hold equally many tokens: several replicas
        weigh theirs by the rows in which anything counts. None weighs them by the counts.
        """
        return None

    def measured(self, outputs, labels):
        """Returns a dict of float32 scalars, sums over a batch; `loss` and `count` among them."""
        raise NotImplementedError

    def numbers(self, sums: dict) -> dict:
        """Returns what is reported of the sums over all batches; `loss` among it."""
        raise NotImplementedError

    def text(self, row: dict) -> list[str]:
        """Returns the numbers beside the loss as people read them, from a row of the history."""
        return []


class TokenObjective(Objective):
    """Masked cross-entropy of ids, a token.

    Args:
        smoothing: Float in [0, 1), label smoothing; not in what is measured.
        spread: How smoothing is spread; see `losses`.

    Raises:
        ValueError: If an argument is not as described.

    Example:

    >>> objective = TokenObjective()
    >>> sums = objective.measured(tf.constant([[[2.0, 1.0], [0.0, 0.0]]]), tf.constant([[1, 0]]))
    >>> sums = {name: float(value) for name, value in sums.items()}
    >>> round(objective.numbers(sums)["perplexity"], 3)
    3.718
    """

    larger_is_better = {"loss": False, "accuracy": True}

    def __init__(self, smoothing: float = 0.0, spread: str = "all"):
        losses.check_smoothing("TokenObjective", smoothing, spread)
        self.smoothing, self.spread = smoothing, spread

    def sums(self, outputs, labels):
        return losses.masked_cross_entropy(outputs, labels, self.smoothing, self.spread)

    def measured(self, outputs, labels):
        loss_sum, count = losses.masked_cross_entropy(outputs, labels)
        predicted = tf.argmax(outputs, axis=-1, output_type=labels.dtype)
        right = (predicted == labels) & (labels != 0)
        return {"loss": loss_sum, "count": count, "right": tf.reduce_sum(tf.cast(right, "float32"))}

    def numbers(self, sums):
        loss = sums["loss"] / sums["count"]
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "accuracy": sums["right"] / sums["count"],
        }

    def text(self, row):
        return [
            f"perplexity {row['dev_perplexity']:.3f}",
            f"accuracy {100 * row['dev_accuracy']:.2f} %",
        ]


class BitsObjective(Objective):
    """Cross-entropy of independent bits, in bits a sequence, where targets are due.

    Labels are a dict of `targets` `(batch, time, bits)` of 0 and 1 and `due` `(batch, time)`, 1
    where the targets count; outputs are logits `(batch, time, bits)`.

    Example:

    >>> labels = {"targets": tf.constant([[[1.0], [1.0]]]), "due": tf.constant([[1.0, 0.0]])}
    >>> sums = BitsObjective().measured(tf.zeros((1, 2, 1)), labels)
    >>> numbers = BitsObjective().numbers({name: float(value) for name, value in sums.items()})
    >>> round(numbers["loss"], 6), numbers["bit_error"]
    (1.0, 1.0)
    """

    unit = "sequences"
    larger_is_better = {"loss": False, "bit_error": False}

    def sums(self, outputs, labels):
        measured = self.measured(outputs, labels)
        return measured["loss"], measured["count"]

    def measured(self, outputs, labels):
        outputs, targets = tf.cast(outputs, "float32"), labels["targets"]
        due = labels["due"][:, :, None]
        bits = tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs) / math.log(2)
        wrong = tf.cast((outputs > 0) != (targets > 0.5), "float32")
        return {
            "loss": tf.reduce_sum(due * bits),
            # A row with nothing due fills a batch up, for several devices; it is no sequence.
            "count": tf.reduce_sum(tf.cast(tf.reduce_any(labels["due"] > 0, axis=1), "float32")),
            "wrong": tf.reduce_sum(due * wrong),
            "bits": tf.reduce_sum(due * tf.ones_like(targets)),
        }

    def numbers(self, sums):
        return {
            "loss": sums["loss"] / sums["count"],
            "bit_error": sums["wrong"] / max(sums["bits"], 1.0),
        }

    def text(self, row):
        return [f"{100 * row['dev_bit_error']:.3f} % of the bits wrong"]


def perplexity(loss: float) -> float:
    """Returns e to the loss a token, infinity where that overflows.

    Example:

    >>> round(perplexity(1.609438), 3), perplexity(1e4)
    (5.0, inf)
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
