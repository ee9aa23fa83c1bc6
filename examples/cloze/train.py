"""What the training on cloze questions needs: questions, words, batches, the model."""

import keras

from examples.cloze import options, words
from examples.cloze.loss import AnswerCrossentropy, answer_crossentropy
from examples.cloze.reading import read_cloze
from examples.commands import resuming
from examples.data.rows import RowBatches
from examples.training.job import Job
from examples.training.settings import TrainingSettings, optimizer_options
from examples.training.workers import Workers
from keras_attention.export import runs

#: What a run may hold before it has a record.
WRITTEN_FIRST = {words.FOLDER}


def check(arguments) -> None:
    """Raises if options do not go together."""
    options.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for; a new run gets its words."""
    questions = {
        name: read_cloze(path, arguments.max_examples)
        for name, path in (("training", arguments.questions), ("dev", arguments.dev_questions))
    }
    if is_new and workers.is_chief:
        learned = words.learn(
            questions["training"], arguments.vocabulary_size, arguments.min_frequency
        )
        learned.save(directory / words.FOLDER)
    workers.wait()
    tokenizer = words.load(directory)
    batches = {}
    for name, part in questions.items():
        groups, _ = words.encoded(
            part, tokenizer, arguments.max_words, arguments.num_buckets, arguments.batch_size
        )
        is_training = name == "training"
        batches[name] = RowBatches(
            groups,
            arguments.batch_size,
            arguments.seed if is_training else 0,
            is_training,
            vary=words.shuffled_candidates,
        )
        print(f"{name}: {batches[name]}, texts of at most {_longest(batches[name])} words")
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
        "max_words": arguments.max_words,
        "flags": flags,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
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
    )


def make_loss() -> dict[str, keras.losses.Loss]:
    """Returns the cross-entropy of the right candidate."""
    return {"probabilities": AnswerCrossentropy()}


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns the fraction of the questions that are answered rightly, and the cross-entropy."""
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.MeanMetricWrapper(answer_crossentropy, name="crossentropy"),
    ]


def _longest(batches):
    return max(shape[0][1] for shape in batches.shapes())
