"""How the memory network is trained, Sukhbaatar et al. 2015, section 4.2.

Gradient descent on the summed cost, the gradient of each matrix clipped; a rate that halves every
25 epochs; a linear start, in which the softmax over memories is missing until the validation loss
stops falling.
"""

import pathlib

import keras
import tensorflow as tf
from keras import ops

from examples.training.history import read_history
from keras_attention import MemoryHops
from keras_attention.export.tokenizers.base import UNKNOWN_ID

LINEAR_FRACTION = 0.5  # of the rate while the softmax is missing: 0.005 for 0.01
LINEAR_CHOICE = 2.0  # no `choice` without softmax is smaller, every one with softmax is


class SummedCostDescent(keras.optimizers.SGD):
    """Gradient descent on a sum, given the gradients of the mean, clipped matrix by matrix.

    Args:
        rate: Positive float, the rate of the summed cost.
        batch_size: Positive int, the rows that are summed.
        largest_norm: Positive float, the largest norm of the gradient of a matrix; None for any.
        **options: Options of `keras.optimizers.SGD`.

    Example:

    >>> variable = keras.Variable([0.0, 0.0])
    >>> descent = SummedCostDescent(0.5, batch_size=2, largest_norm=10.0)
    >>> descent.apply([ops.array([3.0, 4.0])], [variable])  # summed: (6, 8), of norm 10
    >>> variable.numpy().tolist()
    [-3.0, -4.0]
    """

    def __init__(
        self, rate: float, batch_size: int, largest_norm: float | None = None, **options: object
    ) -> None:
        super().__init__(rate, **options)
        self.batch_size, self.largest_norm = batch_size, largest_norm

    def update_step(self, gradient, variable, learning_rate):
        # An embedding's gradient lists a row once a use; the norm needs the rows summed.
        gradient = tf.convert_to_tensor(gradient) * self.batch_size
        if self.largest_norm is not None:
            norm = ops.norm(ops.reshape(gradient, (-1,)))
            gradient = gradient * (self.largest_norm / ops.maximum(norm, self.largest_norm))
        super().update_step(gradient, variable, learning_rate)


class LinearStart(keras.callbacks.Callback):
    """Puts the softmax back when it is time, and halves the rate from then on.

    Whether the reader is linear is one of its weights; what the choice was in earlier epochs stands
    in history.csv.

    Args:
        directory: The run's folder.
        reader: The model's `MemoryHops`.
        rate: Positive float, the rate with the softmax; without it, half as much.
        halve_every: Positive int, epochs from one halving to the next.
        patience: Positive int, epochs without a new best after which the softmax comes back.
        linear_epochs: Positive int, the epochs after which it comes back at the latest.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        reader: MemoryHops,
        rate: float,
        halve_every: int,
        patience: int,
        linear_epochs: int,
    ) -> None:
        super().__init__()
        path = pathlib.Path(directory) / "history.csv"
        self.reader, self.rate, self.halve_every = reader, rate, halve_every
        self.patience, self.linear_epochs = patience, linear_epochs
        self.choices = [row["val_choice"] for row in read_history(path)] if path.exists() else []

    def on_epoch_begin(self, epoch, logs=None):
        self.choices = self.choices[:epoch]  # a row may be newer than the backup

    def on_epoch_end(self, epoch, logs=None):
        self.choices.append(logs["val_choice"])
        linear = [choice for choice in self.choices if choice >= LINEAR_CHOICE]
        if self.reader.is_linear():
            waited = len(linear) - 1 - linear.index(min(linear))
            if waited < self.patience and len(linear) < self.linear_epochs:
                return
            self.reader.set_linear(False)
        halvings = (len(self.choices) - len(linear)) // self.halve_every
        self.model.optimizer.learning_rate = self.rate / 2**halvings


class Choice(keras.metrics.Metric):
    """The number that decides which weights are best: the smallest one.

    It is the fraction of the questions answered wrongly; of two epochs with the same fraction the
    one with the smaller cross-entropy is better, by less than one question. During a linear start
    it is 2 + cross-entropy: there the loss decides, and no weights without softmax are ever better
    than some with it.

    Args:
        reader: The model's `MemoryHops`.
        name: Str.
    """

    def __init__(self, reader: MemoryHops, name: str = "choice") -> None:
        super().__init__(name=name)
        self.reader = reader
        self.error, self.crossentropy = make_metrics()

    def update_state(self, y_true, y_pred, sample_weight=None):
        for metric in (self.error, self.crossentropy):
            metric.update_state(y_true, y_pred, sample_weight)

    def result(self):
        loss = self.crossentropy.result()
        questions = self.error.count + 1.0
        chosen = self.error.result() + loss / (1.0 + loss) / questions
        return ops.where(self.reader.linear, LINEAR_CHOICE + loss, chosen)


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns the fraction of the questions that are answered wrongly, and the cross-entropy."""
    return [
        keras.metrics.MeanMetricWrapper(mark_errors, name="error"),
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="crossentropy"),
    ]


def mark_errors(y_true, y_pred):
    """Returns 1 for each answer that is wrong; one outside the vocabulary cannot be right.

    Example:

    >>> logits = ops.array([[0.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    >>> mark_errors(ops.array([2, 1]), logits).numpy().tolist()
    [0.0, 1.0]
    """
    answer = ops.cast(y_true, "int32")
    said = ops.cast(ops.argmax(y_pred, axis=-1), "int32")
    is_wrong = ops.logical_or(said != answer, answer == UNKNOWN_ID)
    return ops.cast(is_wrong, "float32")
