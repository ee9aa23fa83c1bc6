"""Loss, perplexity and token accuracy on held-out pairs, with the reference words fed back."""

import math

import keras
import tensorflow as tf

from examples.training import losses


class Evaluation:
    """Measures a model on batches; compiled once a batch shape, as training is.

    Args:
        model: A Keras model from `{"source", "target"}` to logits.
        jit_compile: Bool, compile with XLA.

    Call arguments:
        batches: Re-iterable of `(inputs, labels)` (further elements are ignored), or an
            object with `epoch(number)` that returns one.

    Returns:
        A dict of floats: `loss` (unsmoothed, a token), `perplexity`, `accuracy` (share of
        tokens predicted) and `tokens`.

    Raises:
        ValueError: If the batches hold no token.
    """

    def __init__(self, model: keras.Model, jit_compile: bool = True):
        self.model = model
        self._function = tf.function(
            self._sums, jit_compile=jit_compile, autograph=False, reduce_retracing=False
        )
        self._functions = {}

    def __call__(self, batches) -> dict:
        loss_sum = token_count = correct = 0.0
        for inputs, labels, *_ in each_batch(batches):
            key = (*(tuple(x.shape) for x in inputs.values()), tuple(labels.shape))
            if key not in self._functions:
                self._functions[key] = self._function.get_concrete_function(inputs, labels)
            sums = [float(value) for value in self._functions[key](inputs, labels)]
            loss_sum, token_count, correct = (
                total + value
                for total, value in zip((loss_sum, token_count, correct), sums, strict=True)
            )
        if not token_count:
            raise ValueError(
                "Evaluation expects at least one token to predict. Check the dev data. "
                "Received: no batch with a label"
            )
        loss = loss_sum / token_count
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "accuracy": correct / token_count,
            "tokens": token_count,
        }

    def _sums(self, inputs, labels):
        logits = self.model(inputs, training=False)
        loss_sum, token_count = losses.masked_cross_entropy(logits, labels)
        predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
        right = (predicted == labels) & (labels != 0)
        return loss_sum, token_count, tf.reduce_sum(tf.cast(right, tf.float32))


def each_batch(batches):
    """Returns what iterates over the batches: themselves, or their first epoch."""
    return batches.epoch(0) if hasattr(batches, "epoch") else batches


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
