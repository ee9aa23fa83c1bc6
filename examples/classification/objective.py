"""Cross-entropy of classes, a document, and the share of the documents that are right."""

import tensorflow as tf

from examples.training.objectives import Objective


class ClassObjective(Objective):
    """Cross-entropy of the label, `-log p[label]`, a document.

    Outputs are a dict with `logits` `(batch, classes)`; labels are class numbers from 1,
    `(batch,)`, 0 where a row is no document.

    Example:

    >>> outputs = {"logits": tf.constant([[0.0, 0.0], [9.0, 0.0], [0.0, 1.0]])}
    >>> sums = ClassObjective().measured(outputs, tf.constant([2, 1, 0]))
    >>> numbers = ClassObjective().numbers({name: float(value) for name, value in sums.items()})
    >>> round(numbers["loss"], 4), numbers["accuracy"]
    (0.3466, 0.5)
    """

    unit = "documents"
    larger_is_better = {"loss": False, "accuracy": True}

    def sums(self, outputs, labels):
        measured = self.measured(outputs, labels)
        return measured["loss"], measured["count"]

    def measured(self, outputs, labels):
        logits = tf.cast(outputs["logits"], "float32")
        there = tf.cast(labels > 0, "float32")
        classes = labels - 1
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(classes, 0), logits)
        right = tf.cast(tf.argmax(logits, axis=-1, output_type=labels.dtype) == classes, "float32")
        return {
            "loss": tf.reduce_sum(there * losses),
            "count": tf.reduce_sum(there),
            "right": tf.reduce_sum(there * right),
        }

    def numbers(self, sums):
        return {"loss": sums["loss"] / sums["count"], "accuracy": sums["right"] / sums["count"]}

    def text(self, row):
        return [f"accuracy {100 * row['dev_accuracy']:.2f} %"]
