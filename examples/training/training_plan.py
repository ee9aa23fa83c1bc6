"""Everything that a training needs, as a recipe prepares it."""

import dataclasses
from collections.abc import Callable

import keras

from examples.training.settings import Measure, TrainingResult, TrainingSettings


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """What is compiled and fit, and what a run remembers of its data.

    Attributes:
        model: The Keras model, a functional one that is not compiled.
        batches, validation_batches: What it is trained and measured on; see
            `examples.training.batches`.
        settings: The `TrainingSettings`.
        optimizer: A Keras optimizer.
        loss: The loss, as `compile` takes it; outputs that a dict does not name have none.
        save: Writes the run with the model that it is given.
        digests: Part of the data to a string that changes with it.
        metrics: The weighted metrics, as `compile` takes them.
        measures: Measured after each epoch.
        callbacks: Further callbacks. They come after the measures, whose values are in their logs.
        warning: Returns what to tell of a `TrainingResult` that is not as hoped for, or None.
        fit_model: The functional model that is compiled and fit in place of `model`, of the same
            layers with further inputs and losses; None for `model`.
        trainer: The class that is compiled and fit, a `keras.Model` with a different loss if need
            be.
    """

    model: keras.Model
    batches: object
    validation_batches: object
    settings: TrainingSettings
    optimizer: keras.optimizers.Optimizer
    loss: object
    save: Callable[[keras.Model], object]
    digests: dict[str, str]
    metrics: object = None
    measures: tuple[Measure, ...] = ()
    callbacks: tuple[keras.callbacks.Callback, ...] = ()
    warning: Callable[[TrainingResult], str | None] | None = None
    fit_model: keras.Model | None = None
    trainer: type[keras.Model] = keras.Model
