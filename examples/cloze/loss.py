"""What a training on cloze questions minimizes: -log P(answer), summed over its mentions."""

import keras
from keras import ops

SMALLEST = 1e-12  # the answer may not occur


def answer_crossentropy(y_true, y_pred):
    """Returns -log of the probability of the right candidate, `(batch,)`.

    Probabilities are not normalized, as `keras.losses.SparseCategoricalCrossentropy` does: what a
    document says beside the candidates counts.

    Args:
        y_true: The places of the right candidates, `(batch,)`.
        y_pred: Probabilities `(batch, candidates)`.

    Example:

    >>> losses = answer_crossentropy(ops.array([0]), ops.array([[0.5, 0.25]]))
    >>> round(float(losses[0]), 3)
    0.693
    """
    places = ops.expand_dims(ops.cast(y_true, "int32"), -1)
    of_answer = ops.squeeze(ops.take_along_axis(y_pred, places, axis=1), -1)
    return -ops.log(ops.maximum(of_answer, SMALLEST))


class AnswerCrossentropy(keras.losses.Loss):
    """The mean of `answer_crossentropy` over the questions that have a weight."""

    def __init__(self) -> None:
        super().__init__("answer_crossentropy", "mean_with_sample_weight")

    def call(self, y_true, y_pred):
        return answer_crossentropy(y_true, y_pred)
