"""Everything that a training needs, as a family of systems prepares it."""

import dataclasses
from collections.abc import Callable

import keras

from examples.training import averaging, schedules
from examples.training.objectives import Objective
from examples.training.settings import Metric, TrainingSettings


@dataclasses.dataclass(frozen=True)
class Job:
    """What `loop.train` is called with, and what a run remembers of its data.

    Attributes:
        model: The Keras model.
        batches, dev_batches: What it is trained and measured on.
        settings: The `TrainingSettings`.
        optimizer: A Keras optimizer without clipping.
        objective: What is minimized and measured.
        save: Writes the run with the model that it is given.
        digests: Part of the data to a string that changes with it.
        metrics: Measured after each epoch.
        average: A `WeightAverage`, or None.
        plateau: A `ReduceOnPlateau`, or None.
        warning: Returns what to tell of a `TrainingResult` that is not as hoped for, or None.
    """

    model: keras.Model
    batches: object
    dev_batches: object
    settings: TrainingSettings
    optimizer: keras.optimizers.Optimizer
    objective: Objective
    save: Callable[[keras.Model], object]
    digests: dict[str, str]
    metrics: tuple[Metric, ...] = ()
    average: averaging.WeightAverage | None = None
    plateau: schedules.ReduceOnPlateau | None = None
    warning: Callable[[object], str | None] | None = None
