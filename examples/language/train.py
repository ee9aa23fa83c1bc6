"""What the training of a language model needs: texts, a tokenizer, batches, the model."""

import keras

from examples.commands import resuming
from examples.data.rows import RowBatches
from examples.language import options, texts
from examples.training.job import Job
from examples.training.recorder import Plateau
from examples.training.settings import TrainingSettings, optimizer_options
from examples.training.workers import Workers
from keras_attention import TokenCrossentropy
from keras_attention.export import runs, tokenizers
from keras_attention.metrics import Perplexity, TokenAccuracy

#: What a run may hold before it has a record.
WRITTEN_FIRST = {texts.FOLDER}


def check(arguments) -> None:
    """Raises if options do not go together."""
    options.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for; a new run gets its tokenizer."""
    parts = {
        name: texts.read_texts(path, arguments.max_texts)
        for name, path in (("training", arguments.text), ("dev", arguments.dev_text))
    }
    if is_new and workers.is_chief:
        _learned(arguments, parts["training"]).save(directory / texts.FOLDER)
    workers.wait()
    tokenizer = tokenizers.load(directory / texts.FOLDER)
    batches = {}
    for name, part in parts.items():
        groups, _, length = texts.encoded(
            part, tokenizer, arguments.max_tokens, arguments.shapes, arguments.batch_size
        )
        is_training = name == "training"
        batches[name] = RowBatches(
            groups, arguments.batch_size, arguments.seed if is_training else 0, is_training
        )
        print(f"{name}: {length}; {batches[name]}")
    flags = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        tokenizer.vocabulary_size,
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **flags,
    )
    print(
        f"{arguments.system}: {model.count_params():,} parameters, a vocabulary of "
        f"{tokenizer.vocabulary_size:,}"
    )
    description = {
        "system": arguments.system,
        "max_tokens": arguments.max_tokens,
        "flags": flags,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    plateau = arguments.plateau and Plateau(
        directory, arguments.monitor, patience=arguments.plateau
    )
    return Job(
        model,
        batches["training"],
        batches["dev"],
        TrainingSettings.from_arguments(arguments),
        keras.optimizers.Adam(arguments.learning_rate, **optimizer_options(arguments)),
        make_loss(),
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={name: part.digest() for name, part in batches.items()},
        metrics=make_metrics(),
        callbacks=(plateau,) if plateau else (),
    )


def make_loss() -> dict[str, keras.losses.Loss]:
    """Returns the cross-entropy of each next token."""
    return {"logits": TokenCrossentropy()}


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns what is measured of the next tokens."""
    return [Perplexity(), TokenAccuracy(name="accuracy")]


def _learned(arguments, lines):
    return tokenizers.train(
        arguments.tokens,
        lines,
        vocabulary_size=arguments.vocabulary_size,
        min_frequency=arguments.min_frequency,
        lowercase=arguments.lowercase,
    )
