"""Training inside a notebook, in a folder that is thrown away."""

import tempfile

import keras

from examples.recipes.reference_metrics import make_token_metrics
from examples.training import fitting
from examples.training.settings import TrainingResult, TrainingSettings
from examples.training.training_plan import TrainingPlan
from keras_attention import TokenCrossentropy


def train(
    model: keras.Model,
    batches,
    validation_batches,
    *,
    optimizer: keras.optimizers.Optimizer,
    settings: dict,
    loss=None,
    metrics=None,
    trainer: type[keras.Model] = keras.Model,
) -> TrainingResult:
    """Trains a model as `python -m examples train` does and leaves the best weights in it.

    Args:
        model, batches, validation_batches, loss, metrics, trainer: See `TrainingPlan`. Loss and
            metrics of a translator by default.
        optimizer: A Keras optimizer without clipping.
        settings: The fields of `TrainingSettings` that are not the default, and `clip_norm`, the
            largest norm of the gradient, 1 by default.
    """
    settings = {"monitor": "perplexity", **settings}
    optimizer.global_clipnorm = settings.pop("clip_norm", 1.0)
    best = []
    plan = TrainingPlan(
        model,
        batches,
        validation_batches,
        TrainingSettings(**settings),
        optimizer,
        loss or TokenCrossentropy(),
        save=lambda model: best.append(model.get_weights()),
        digests={},
        metrics=metrics or make_token_metrics(),
        trainer=trainer,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = fitting.train(plan, folder)
    model.set_weights(best[-1])
    return result
