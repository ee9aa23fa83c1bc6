"""What the training on a task of the Neural Turing Machine needs: streams and a model."""

import hashlib

import keras

from examples import tasks
from examples.algorithms.bits import BitsPerSequence, make_metrics
from examples.algorithms.options import sizes_of
from examples.commands import resuming
from examples.commands.arguments import UsageError
from examples.tasks.streams import LinearCurriculum, Stream
from examples.training.job import Job
from examples.training.settings import TrainingSettings, optimizer_options
from examples.training.workers import Workers
from keras_attention.export import runs

#: What a run may hold before it has a record.
WRITTEN_FIRST = frozenset()
#: Held-out data: seeds that no training has, at most 2**32 - 1.
DEV_SEED, TEST_SEED = 2**32 + 1, 2**32 + 2
DEV_BATCHES, DEV_BATCH_SIZE = 16, 16


def check(arguments) -> None:
    """Raises if options do not go together."""
    task = tasks.find(arguments.task)
    sizes_of(arguments.size, task)
    if arguments.epoch_size < arguments.batch_size:
        raise UsageError(
            "An epoch holds at least one batch. Raise --epoch-size or lower --batch-size. "
            f"Received: --epoch-size {arguments.epoch_size} --batch-size {arguments.batch_size}"
        )
    if arguments.clip_norm and arguments.clip_value:
        raise UsageError(
            "Gradients are clipped by their norm or by value, not both. Add --clip-value 0 or "
            f"leave --clip-norm out. Received: --clip-norm {arguments.clip_norm:g} --clip-value "
            f"{arguments.clip_value:g}"
        )


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for."""
    task = tasks.find(arguments.task)
    sizes = sizes_of(arguments.size, task)
    batches = Stream(
        task,
        arguments.batch_size,
        arguments.epoch_size // arguments.batch_size,
        arguments.seed,
        LinearCurriculum(arguments.curriculum) if arguments.curriculum else None,
        arguments.num_buckets,
        **sizes,
    )
    dev = Stream(
        task,
        DEV_BATCH_SIZE,
        DEV_BATCHES,
        DEV_SEED,
        max_shapes=min(2, arguments.num_buckets),
        **sizes,
    )
    print(f"training: {batches}")
    print(f"dev: {dev}")
    options = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        task.input_dim,
        task.output_dim,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **options,
    )
    print(f"{arguments.system}: {model.count_params():,} parameters")
    description = {
        "system": arguments.system,
        "task": task.name,
        "sizes": {name: list(ends) for name, ends in batches.ranges.items()},
        "flags": options,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    return Job(
        model,
        batches,
        dev,
        TrainingSettings.from_arguments(arguments),
        _optimizer(arguments),
        BitsPerSequence(),
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={"training": _digest(batches), "dev": _digest(dev)},
        metrics=make_metrics(),
    )


def _optimizer(arguments):
    rate, options = arguments.learning_rate, optimizer_options(arguments)
    if arguments.optimizer == "adam":
        return keras.optimizers.Adam(rate, **options)
    return keras.optimizers.RMSprop(
        rate, rho=0.95, momentum=0.9, epsilon=1e-4, centered=True, **options
    )


def _digest(stream):
    """A string that changes with the first batch."""
    example = stream.take(1)[0]
    return hashlib.sha256(example.inputs.tobytes() + example.targets.tobytes()).hexdigest()
