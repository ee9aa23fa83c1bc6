"""How the memory network is trained, Sukhbaatar et al. 2015, section 4.2.

Gradient descent on the summed cost, the gradient of each matrix clipped; a rate that halves every
25 epochs; a linear start, in which the softmax over memories is missing until the dev loss stops
falling. The training loop asks `LinearStartSchedule` after every epoch, as it asks any plateau.
"""

import keras
from keras import ops

from examples.questions.objective import AnswerObjective
from examples.training.evaluation import Evaluation
from examples.training.settings import Metric
from keras_attention import validation

LINEAR_SHARE = 0.5  # of the rate while the softmax is missing: 0.005 for 0.01
LINEAR_CHOICE = 2.0  # no `choice` without softmax is smaller, every one with softmax is


class SummedCostDescent(keras.optimizers.SGD):
    """Gradient descent on a sum, given the gradients of the mean, clipped matrix by matrix.

    Args:
        rate: Positive float, the rate of the summed cost.
        batch_size: Positive int, the rows that are summed.
        largest_norm: Positive float, the largest norm of the gradient of a matrix; None for any.

    Example:

    >>> variable = keras.Variable([0.0, 0.0])
    >>> descent = SummedCostDescent(0.5, batch_size=2, largest_norm=10.0)
    >>> descent.apply([ops.array([3.0, 4.0])], [variable])  # summed: (6, 8), of norm 10
    >>> variable.numpy().tolist()
    [-3.0, -4.0]
    """

    def __init__(self, rate: float, batch_size: int, largest_norm: float | None = None):
        super().__init__(rate)
        self.batch_size, self.largest_norm = batch_size, largest_norm

    def update_step(self, gradient, variable, learning_rate):
        gradient = gradient * self.batch_size
        if self.largest_norm is not None:
            norm = ops.norm(ops.reshape(gradient, (-1,)))
            gradient = gradient * (self.largest_norm / ops.maximum(norm, self.largest_norm))
        super().update_step(gradient, variable, learning_rate)


class LinearStartSchedule:
    """Puts the softmax back when it is time, and halves the rate from then on.

    Args:
        reader: The model's `MemoryHops`. Whether it is linear is one of its weights, and so part
            of a checkpoint.
        rate: Positive float, the rate with the softmax; without it, half as much.
        halve_every: Positive int, epochs from one halving to the next.
        patience: Positive int, epochs without a new best after which the softmax comes back.
        epochs_done: Function that returns how many epochs there have been.
        linear_epochs: Positive int, the epochs after which it comes back at the latest.

    Attributes:
        waited: Without softmax, epochs that were not the best; with it, epochs since it came
            back. The loop keeps it in checkpoints.
    """

    def __init__(self, reader, rate, halve_every, patience, epochs_done, linear_epochs):
        owner = "LinearStartSchedule"
        self.reader, self.epochs_done = reader, epochs_done
        self.rate = validation.check_number_in_range(owner, "rate", rate, 0.0)
        self.halve_every = validation.check_positive_int(owner, "halve_every", halve_every)
        self.patience = validation.check_positive_int(owner, "patience", patience)
        self.linear_epochs = validation.check_positive_int(owner, "linear_epochs", linear_epochs)
        self.waited = 0

    def first_rate(self) -> float:
        """Returns the rate to begin with."""
        return self.rate * (LINEAR_SHARE if self.reader.is_linear() else 1.0)

    def update(self, improved: bool, rate: float) -> float:
        """Returns the rate to go on with; called after every epoch."""
        if not self.reader.is_linear():
            self.waited += 1
            return rate if self.waited % self.halve_every else rate / 2
        self.waited = 0 if improved else self.waited + 1
        if self.waited < self.patience and self.epochs_done() < self.linear_epochs:
            return rate
        self.reader.set_linear(False)
        self.waited = 0
        return self.rate


def choice(reader, dev_batches, jit_compile: bool = True) -> Metric:
    """Returns the number that decides which weights are best: the smallest `choice`.

    It is the share of the dev questions answered wrongly; of two epochs with the same share the
    one with the smaller loss is better, by less than one question. During a linear start it is
    2 + loss: there the loss decides, and no weights without softmax are ever better than some
    with it.
    """
    evaluations = {}

    def measure(model):
        if not evaluations:  # made once: its graph reads the weights of the moment
            evaluations[0] = Evaluation(model, jit_compile, AnswerObjective())
        numbers = evaluations[0](dev_batches)
        if reader.is_linear():
            return LINEAR_CHOICE + numbers["loss"]
        tie = numbers["loss"] / (1.0 + numbers["loss"])
        return numbers["error"] + tie / (numbers["questions"] + 1.0)

    return Metric("choice", measure, larger_is_better=False)
