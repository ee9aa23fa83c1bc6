"""The training loop: epochs, evaluation, the best weights, checkpoints, resuming.

A run is a pure function of its checkpoint: weights, optimizer, seed states and the
position in the data. Every number that history.csv shows, times aside, is the same
whether the run went through at once or was killed and resumed. Two habits make it so:
the order of the batches is a function of (seed, epoch) alone, and the epoch's sums are
part of the checkpoint.
"""

import pathlib
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from examples.training import averaging, schedules
from examples.training.evaluation import each_batch
from examples.training.interrupts import Interrupts
from examples.training.monitoring import Monitor
from examples.training.objectives import Objective, TokenObjective
from examples.training.progress import make_progress
from examples.training.run import Run
from examples.training.settings import Metric, TrainingResult, TrainingSettings


def train(
    model: keras.Model,
    batches,
    dev_batches,
    settings: TrainingSettings,
    directory: pathlib.Path,
    *,
    optimizer: keras.optimizers.Optimizer | None = None,
    objective: Objective | None = None,
    save: Callable[[keras.Model], None] | None = None,
    metrics: Sequence[Metric] = (),
    average: averaging.WeightAverage | None = None,
    plateau: schedules.ReduceOnPlateau | None = None,
    strategy: tf.distribute.Strategy | None = None,
    resume: bool = False,
    progress=None,
) -> TrainingResult:
    """Trains a model and leaves the best weights in it.

    Args:
        model: A Keras model; a translator goes from `{"source", "target"}` to logits.
        batches: Object with `seed`, `batches_per_epoch(epoch)` and
            `epoch(epoch, start=0)`, the `tf.data.Dataset` of `(inputs, labels)` from batch
            `start` on; its order depends on `(seed, epoch)` alone.
        dev_batches: Re-iterable of `(inputs, labels)` to evaluate on.
        settings: A `TrainingSettings`.
        directory: The run's folder; gets `history.csv`, `checkpoints/`, `tensorboard/`.
        optimizer: A Keras optimizer without clipping; Adam with rate 0.001 by default.
        objective: What is minimized and measured; a `TokenObjective` by default.
        save: Called with the model, averaged weights in place, whenever it is the best
            so far, and once at the end.
        metrics: Measured after each epoch, averaged weights in place.
        average: A `WeightAverage`, or None.
        plateau: A `ReduceOnPlateau`, or None.
        strategy: A `tf.distribute` strategy under which model and optimizer were made.
        resume: Bool, go on from the newest checkpoint; without one, start.
        progress: What shows the progress; a bar or lines by default.

    Returns:
        A `TrainingResult`. Interrupted by Ctrl-C or SIGTERM it says so, after writing a
        checkpoint; the model then holds the weights of the moment, not the best.

    Raises:
        ValueError: If arguments do not fit each other, if there are checkpoints but
            `resume` is False, or (`CheckpointError`) they belong to another run.
        TrainingDiverged: If loss or gradient stop being finite.
        OSError: If the last checkpoint or model cannot be written; earlier ones are kept,
            and a failure before the end is reported and tried again.
    """
    objective = objective or TokenObjective()
    monitor = Monitor(settings.monitor, objective, metrics)
    if plateau is not None and optimizer is not None and _schedule(optimizer):
        raise ValueError(
            "train expects an optimizer with a plain learning rate when `plateau` is given. "
            f"Received: learning_rate={_schedule(optimizer)}"
        )
    if batches.batches_per_epoch(0) < 1:
        raise ValueError(
            "train expects at least one batch an epoch. Check that the training data is not empty. "
            f"Received: batches_per_epoch={batches.batches_per_epoch(0)}"
        )
    if next(iter(each_batch(dev_batches)), None) is None:
        raise ValueError(
            "train expects at least one batch to evaluate on. Check that the dev data is not "
            "empty. Received: dev_batches without a batch"
        )
    run = Run(
        model,
        batches,
        dev_batches,
        settings,
        pathlib.Path(directory),
        objective=objective,
        monitor=monitor,
        metrics=tuple(metrics),
        save=save,
    )
    run.prepare(
        optimizer or keras.optimizers.Adam(1e-3),
        plateau,
        average or averaging.NoAverage(),
        strategy,
        progress or make_progress(),
    )
    run.restore(resume)
    with Interrupts() as interrupts:
        try:
            result = run.go(interrupts)
            run.workers.wait()  # none leaves while another may still need it
            return result
        finally:
            run.reporter.close()


def _schedule(optimizer):
    """Returns the name of the optimizer's learning-rate schedule, None for a plain rate."""
    rate = optimizer.get_config()["learning_rate"]
    return rate["class_name"] if isinstance(rate, dict) else None
