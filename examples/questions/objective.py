"""What a training on questions minimizes: the cross-entropy of the answer among all words."""

import tensorflow as tf

from examples.training.objectives import Objective


class AnswerObjective(Objective):
    """Cross-entropy of one word a question, and the share of the questions answered wrongly.

    Labels are `{"answer": (batch,)}`: ids of words, 0 for a row that is no question, 1 for an
    answer outside the vocabulary, which no output meets. Outputs are `{"logits": (batch,
    vocabulary)}` and what else the model has.

    Example:

    >>> logits = tf.constant([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    >>> labels = {"answer": tf.constant([2, 0])}
    >>> sums = AnswerObjective().measured({"logits": logits}, labels)
    >>> {name: round(float(value), 3) for name, value in sums.items()}
    {'loss': 0.24, 'count': 1.0, 'wrong': 0.0}
    """

    unit = "questions"
    larger_is_better = {"loss": False, "error": False}

    def sums(self, outputs, labels):
        measured = self.measured(outputs, labels)
        return measured["loss"], measured["count"]

    def measured(self, outputs, labels):
        logits, answer = tf.cast(outputs["logits"], "float32"), labels["answer"]
        asked = tf.cast(answer != 0, "float32")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(answer, logits)
        said = tf.argmax(logits, axis=-1, output_type=answer.dtype)
        wrong = tf.cast((said != answer) | (answer == 1), "float32")
        return {
            "loss": tf.reduce_sum(asked * loss),
            "count": tf.reduce_sum(asked),
            "wrong": tf.reduce_sum(asked * wrong),
        }

    def numbers(self, sums):
        return {"loss": sums["loss"] / sums["count"], "error": sums["wrong"] / sums["count"]}

    def text(self, row):
        return [f"{100 * row['dev_error']:.2f} % of the answers wrong"]
