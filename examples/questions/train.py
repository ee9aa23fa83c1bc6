"""What the training on stories needs: questions, words, batches, the model."""

import keras

from examples.commands import resuming
from examples.data.report import DataError
from examples.data.rows import RowBatches
from examples.questions import options, words
from examples.questions.opened import linear_text
from examples.questions.schedule import (
    LINEAR_CHOICE,
    Choice,
    LinearStart,
    SummedCostDescent,
    make_loss,
    make_metrics,
)
from examples.questions.stories import read_questions, split
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
    questions = read_questions(arguments.stories, "train", arguments.task)
    parts = dict(zip(("training", "dev"), _split(questions, arguments), strict=True))
    if is_new and workers.is_chief:
        words.learn(questions).save(directory / words.FOLDER)
    workers.wait()
    tokenizer = words.load(directory)
    longest = words.longest(questions, tokenizer)
    rows = {
        name: words.encoded(part, tokenizer, arguments.max_memories, longest)
        for name, part in parts.items()
    }
    batches = RowBatches([rows["training"]], arguments.batch_size, arguments.seed)
    dev_batches = RowBatches([rows["dev"]], arguments.batch_size, is_training=False)
    flags = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        tokenizer.vocabulary_size,
        longest,
        linear_start=arguments.linear_start,
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **flags,
    )
    _tell(arguments, parts, model, tokenizer, longest)
    reader = model.get_layer("reader")
    start = LinearStart(
        directory,
        reader,
        arguments.learning_rate or options.OPTIMIZERS[arguments.optimizer],
        arguments.lr_decay_every,
        arguments.linear_patience,
        arguments.linear_epochs,
    )
    description = {
        "system": arguments.system,
        "task": arguments.task,
        "words": longest,
        "flags": flags,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    return Job(
        model,
        batches,
        dev_batches,
        TrainingSettings.from_arguments(arguments),
        _optimizer(arguments, start.first_rate()),
        make_loss(),
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={"training": batches.digest(), "dev": dev_batches.digest()},
        metrics=[*make_metrics(), Choice(reader)],
        callbacks=(start,),
        warning=lambda result: _warning(arguments, result),
    )


def _split(questions, arguments):
    training, dev = split(questions)
    if not dev:
        raise DataError(
            f"{' '.join(arguments.stories)}: expected at least ten stories, of which one is held "
            f"out as dev data; found {len({q.story for q in questions})}."
        )
    return training, dev


def _tell(arguments, parts, model, tokenizer, longest):
    tasks = {question.task for part in parts.values() for question in part}
    counts = ", ".join(f"{name} {len(part):,}" for name, part in parts.items())
    cut = sum(len(q.sentences) > arguments.max_memories for q in parts["training"])
    print(f"{len(tasks)} tasks; questions: {counts}")
    if cut:
        print(
            f"{cut:,} training stories are longer than --max-memories {arguments.max_memories}; "
            "of those the most recent sentences are read."
        )
    if arguments.linear_start and arguments.epochs <= arguments.linear_epochs:
        print(
            f"The linear start may last for all of --epochs {arguments.epochs}, as --linear-epochs "
            f"is {arguments.linear_epochs}: train for more, or with --no-linear-start."
        )
    print(
        f"{arguments.system}: {model.count_params():,} parameters, a vocabulary of "
        f"{tokenizer.vocabulary_size:,}, sentences of at most {longest} words"
    )


def _warning(arguments, result):
    """What there is to say when a training is over: whether the softmax never came back."""
    is_linear = arguments.linear_start and result.best >= LINEAR_CHOICE
    return linear_text(arguments.run) if is_linear else None


def _optimizer(arguments, rate):
    shared = optimizer_options(arguments)
    if arguments.optimizer == "adam":
        return keras.optimizers.Adam(rate, **shared)
    largest_norm = shared.pop("global_clipnorm")  # it clips each matrix by itself
    return SummedCostDescent(rate, arguments.batch_size, largest_norm, **shared)
