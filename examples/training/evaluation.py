"""What an objective measures, over held-out batches; for a translator the reference words fed."""

import keras
import tensorflow as tf

from examples.training.objectives import Objective, TokenObjective


class Evaluation:
    """Measures a model on batches; compiled once a batch shape, as training is.

    Args:
        model: A Keras model.
        jit_compile: Bool, compile with XLA.
        objective: What is measured; a `TokenObjective` by default.

    Call arguments:
        batches: Re-iterable of `(inputs, labels)` (further elements are ignored), or an
            object with `epoch(number)` that returns one.

    Returns:
        A dict of floats: the objective's numbers (for a translator `loss`, unsmoothed, a token,
        `perplexity` and `accuracy`, the share of tokens predicted), and the count they are of,
        under the name of its unit.

    Raises:
        ValueError: If the batches hold nothing to count.
    """

    def __init__(
        self, model: keras.Model, jit_compile: bool = True, objective: Objective | None = None
    ):
        self.model, self.objective = model, objective or TokenObjective()
        self._function = tf.function(
            self._measured, jit_compile=jit_compile, autograph=False, reduce_retracing=False
        )
        self._functions = {}

    def __call__(self, batches) -> dict:
        sums = {}
        for inputs, labels, *_ in each_batch(batches):
            key = tuple(tuple(tensor.shape) for tensor in tf.nest.flatten((inputs, labels)))
            if key not in self._functions:
                self._functions[key] = self._function.get_concrete_function(inputs, labels)
            for name, value in self._functions[key](inputs, labels).items():
                sums[name] = sums.get(name, 0.0) + float(value)
        unit = self.objective.unit
        if not sums.get("count"):
            raise ValueError(
                f"Evaluation expects at least one {unit.removesuffix('s')} to predict. Check the "
                "dev data. "
                "Received: no batch with a label"
            )
        return {**self.objective.numbers(sums), unit: sums["count"]}

    def _measured(self, inputs, labels):
        return self.objective.measured(self.model(inputs, training=False), labels)


def each_batch(batches):
    """Returns what iterates over the batches: themselves, or their first epoch."""
    return batches.epoch(0) if hasattr(batches, "epoch") else batches
