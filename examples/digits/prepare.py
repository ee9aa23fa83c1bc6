"""What the trainings on digits share: pictures, batches, and the record of a run."""

from collections.abc import Callable

import keras

from examples.commands import resuming
from examples.data.rows import RowBatches
from examples.digits.batches import DrawnBatches, read_rows
from examples.training.job import Job
from examples.training.recorder import Plateau
from examples.training.settings import TrainingSettings, optimizer_options
from keras_attention.export import runs


def make_job(
    arguments, directory, system, draws: dict[str, Callable], beta_1: float = 0.9, **of_job
) -> Job:
    """Returns the training that the arguments ask for.

    Args:
        arguments: The options of `train`.
        directory: The run directory.
        system: The `System`.
        draws: For "training" and "dev" what `DrawnBatches` draws.
        beta_1: Of Adam.
        **of_job: Loss, metrics and trainer of the `Job`.
    """
    batches = {}
    for name, part in (("training", "train"), ("dev", "dev")):
        group = read_rows(arguments.mnist, part, arguments.max_examples)
        is_training = name == "training"
        rows = RowBatches(
            [group], arguments.batch_size, arguments.seed if is_training else 0, is_training
        )
        batches[name] = DrawnBatches(rows, draws[name])
        print(f"{name}: {batches[name]}")
    model = build(arguments, system)
    print(f"{arguments.system}: {model.count_params():,} parameters")
    description = {
        "system": arguments.system,
        "flags": flags(arguments, system),
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    optimizer = keras.optimizers.Adam(
        arguments.learning_rate, beta_1=beta_1, **optimizer_options(arguments)
    )
    plateau = arguments.plateau and Plateau(
        directory, arguments.monitor, patience=arguments.plateau
    )
    return Job(
        model,
        batches["training"],
        batches["dev"],
        TrainingSettings.from_arguments(arguments),
        optimizer,
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={name: part.digest() for name, part in batches.items()},
        callbacks=(plateau,) if plateau else (),
        **of_job,
    )


def build(arguments, system) -> keras.Model:
    """Returns the model that the arguments ask for."""
    dtype = None if arguments.dtype == "float32" else arguments.dtype
    return system.build(dtype=dtype, **flags(arguments, system))


def flags(arguments, system) -> dict:
    """Returns the options of the model."""
    return {name: getattr(arguments, name) for name in system.module.OPTIONS}
