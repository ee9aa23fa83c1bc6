"""The training of a run: `compile` and `fit`, with the callbacks that make its directory.

A killed training goes on bit for bit: `BackupAndRestore` brings back weights, optimizer, seeds,
metrics and the position in the data, and `RunRecorder` reads the rest from history.csv.
"""

import pathlib
import sys

import keras
import tensorflow as tf

from examples.training.batches import EpochBatches
from examples.training.distribution import ReplicatedModel, fit_on_workers, spread_rows
from examples.training.recorder import RunRecorder
from examples.training.settings import TrainingResult
from examples.training.training_plan import TrainingPlan
from examples.training.workers import Workers
from keras_attention.callbacks import BackupAndRestore, XLASteps

#: The folder of a run that holds its backup.
BACKUP = "backup"


def train(
    plan: TrainingPlan, directory: pathlib.Path, workers: Workers | None = None
) -> TrainingResult:
    """Trains a model and writes history.csv, the backup and the best weights into a directory.

    A backup that is there is where the training goes on.

    Args:
        plan: The `TrainingPlan`. Its model and optimizer were made in `workers.scope()`.
        directory: The run's folder.
        workers: The processes that train together; None for this one alone.

    Raises:
        ValueError: If the backup belongs to another training, or `monitor` names no metric.
        TrainingDiverged: If the loss is no longer a number.
    """
    settings, directory, workers = plan.settings, pathlib.Path(directory), workers or Workers()
    directory.mkdir(parents=True, exist_ok=True)
    average = keras.callbacks.SwapEMAWeights() if settings.uses_average else None
    recorder = RunRecorder(directory, plan, average, workers)
    data = EpochBatches(plan.batches)
    # Several devices tell each other sums in the middle of a step, which XLA cannot compile.
    jit_compile = settings.jit_compile and workers.replicas == 1
    kind = plan.trainer
    if workers.replicas > 1 and not issubclass(kind, ReplicatedModel):
        kind = type("Trainer", (ReplicatedModel, kind), {})
    with workers.scope():
        trainer = make_trainer(
            plan.fit_model or plan.model, plan.loss, plan.metrics, plan.optimizer, jit_compile, kind
        )
    callbacks = [XLASteps(), *([] if average is None else [average])]
    callbacks += [recorder, *plan.callbacks]
    if settings.tensorboard and workers.is_chief:
        callbacks.append(keras.callbacks.TensorBoard(directory / "tensorboard", write_graph=False))
    callbacks.append(
        BackupAndRestore(
            directory / BACKUP,
            data,
            "epoch" if workers.is_chief else None,
            delete_checkpoint=False,
            # Within an epoch a backup holds the metrics, which only all workers together can read.
            save_seconds=settings.checkpoint_seconds if workers.count == 1 else None,
        )
    )
    options = {
        "epochs": settings.epochs,
        "callbacks": callbacks,
        "verbose": 0 if not workers.is_chief else 1 if sys.stdout.isatty() else 2,
    }
    if recorder.reason is None:
        validation = plan.validation_batches.epoch(0)
        if workers.count > 1:
            fit_on_workers(trainer, data, validation, workers, **options)
        else:
            training, validation = (
                spread_rows(dataset, workers.replicas) for dataset in (data.dataset, validation)
            )
            trainer.fit(training, validation_data=validation, shuffle=False, **options)
    best = recorder.best
    return TrainingResult(
        recorder.reason,
        recorder.rows,
        recorder.best_value(),
        None if best is None else int(best["epoch"]),
    )


def make_trainer(
    model: keras.Model,
    loss: object,
    metrics: object = None,
    optimizer: keras.optimizers.Optimizer | None = None,
    jit_compile: bool = True,
    trainer: type[keras.Model] = keras.Model,
) -> keras.Model:
    """Returns a compiled model of the layers of `model`, which itself stays as it is.

    So the model is saved without its optimizer and without the loss, which a user would need to
    load it. Of a dict of outputs it has those that a dict of losses names: Keras wants labels for
    every output. The loss is scaled if a layer computes in float16: Keras does so by itself only
    if the model has that policy.
    """
    outputs = model.output
    if isinstance(loss, dict):
        outputs = {name: outputs[name] for name in loss}
    compiled = trainer(model.input, outputs, name=model.name)
    optimizer = keras.optimizers.get(optimizer or "sgd")
    if any(layer.dtype_policy.name == "mixed_float16" for layer in model.layers):
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    compiled.compile(optimizer, loss, weighted_metrics=metrics, jit_compile=jit_compile)
    return compiled


def evaluate(
    model: keras.Model,
    batches: tf.data.Dataset,
    loss: object,
    metrics: object,
    jit_compile: bool = False,
    trainer: type[keras.Model] = keras.Model,
) -> dict[str, float]:
    """Returns loss and metrics of a model on batches; without XLA, whose compiling takes longer."""
    compiled = make_trainer(model, loss, metrics, None, jit_compile, trainer)
    return compiled.evaluate(batches, verbose=0, return_dict=True)
