"""What a training on cloze questions minimizes: -log P(answer), summed over its mentions."""

import tensorflow as tf

from examples.training.objectives import Objective

SMALLEST = 1e-12  # the answer may not occur


class ClozeObjective(Objective):
    """-log of the probability of the right candidate, and the share of questions it wins.

    Labels are `{"answer": (batch,)}`, places of candidates from 1 on, 0 for a row that is no
    question. Outputs are `{"probabilities": (batch, candidates)}` and what else the model has.

    Example:

    >>> outputs = {"probabilities": tf.constant([[0.5, 0.25], [0.0, 0.0]])}
    >>> sums = ClozeObjective().measured(outputs, {"answer": tf.constant([1, 0])})
    >>> {name: round(float(value), 3) for name, value in sums.items()}
    {'loss': 0.693, 'count': 1.0, 'right': 1.0}
    """

    unit = "questions"
    larger_is_better = {"loss": False, "accuracy": True}

    def sums(self, outputs, labels):
        measured = self.measured(outputs, labels)
        return measured["loss"], measured["count"]

    def measured(self, outputs, labels):
        probabilities = tf.cast(outputs["probabilities"], "float32")
        answer = labels["answer"]
        place = tf.maximum(answer - 1, 0)
        of_answer = tf.gather(probabilities, place, batch_dims=1)
        said = tf.argmax(probabilities, axis=1, output_type=answer.dtype)
        asked = tf.cast(answer > 0, "float32")
        return {
            "loss": -tf.reduce_sum(asked * tf.math.log(tf.maximum(of_answer, SMALLEST))),
            "count": tf.reduce_sum(asked),
            "right": tf.reduce_sum(asked * tf.cast(said == place, "float32")),
        }

    def numbers(self, sums):
        return {"loss": sums["loss"] / sums["count"], "accuracy": sums["right"] / sums["count"]}

    def text(self, row):
        return [f"{100 * row['dev_accuracy']:.2f} % right"]
