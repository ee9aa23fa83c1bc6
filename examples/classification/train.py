"""What the training of a classifier needs: documents, a vocabulary, batches, the model."""

import keras

from examples.classification.batches import DocumentBatches, encode_documents
from examples.classification.documents import is_same_file, read_documents
from examples.commands import resuming
from examples.commands.arguments import UsageError
from examples.data.report import DataError
from examples.training.job import Job
from examples.training.settings import TrainingSettings, optimizer_options
from examples.training.workers import Workers
from keras_attention.export import runs, tokenizers

#: The folder of the run that holds the words.
WORDS = "words.tokenizer"
#: What a run may hold before it has a record.
WRITTEN_FIRST = {WORDS}


def check(arguments) -> None:
    """Raises if options do not go together."""
    if not arguments.documents:
        raise UsageError("Name the training documents with --documents FILE.")
    if not arguments.dev_documents and not arguments.dev_folds:
        raise UsageError(
            "Name the dev documents: --dev-documents FILE, or --dev-folds of the same file."
        )
    dev_documents = arguments.dev_documents or arguments.documents
    if not is_same_file(arguments.documents, dev_documents):
        return
    if arguments.folds is None or arguments.dev_folds is None:
        raise UsageError(
            "--documents and the dev documents are one file. Say with --folds and --dev-folds "
            "which part is which."
        )
    both = sorted(set(arguments.folds) & set(arguments.dev_folds))
    if both:
        raise UsageError(
            f"Fold {', '.join(map(str, both))} is in both --folds and --dev-folds. Take it out of "
            "one."
        )


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for; a new run gets its vocabulary."""
    training = read_documents(arguments.documents, arguments.folds)
    dev = read_documents(arguments.dev_documents or arguments.documents, arguments.dev_folds)
    classes = classes_of(training, dev)
    if is_new and workers.is_chief:
        tokenizer = tokenizers.train(
            "words",
            (sentence for document in training for sentence in document.sentences),
            min_frequency=arguments.min_frequency,
            lowercase=arguments.lowercase,
        )
        tokenizer.save(directory / WORDS)
    workers.wait()
    if not (is_new and workers.is_chief):
        tokenizer = tokenizers.load(directory / WORDS)
    options = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        tokenizer.vocabulary_size,
        len(classes),
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **options,
    )
    print(
        f"{arguments.system}: {model.count_params():,} parameters, {tokenizer.vocabulary_size:,} "
        f"words, classes {', '.join(classes)}"
    )
    parts = {}
    for name, documents, shapes in (
        ("training", training, arguments.num_buckets),
        ("dev", dev, min(3, arguments.num_buckets)),
    ):
        encoded = encode_documents(
            documents, tokenizer, classes, arguments.max_sentences, arguments.max_words
        )
        parts[name] = DocumentBatches(
            encoded,
            batch_size=arguments.batch_size,
            max_shapes=shapes,
            seed=arguments.seed if name == "training" else 0,
        )
        print(f"{name}: {parts[name]}")
    description = {
        "system": arguments.system,
        "classes": classes,
        "limits": {"sentences": arguments.max_sentences, "words": arguments.max_words},
        "flags": options,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    return Job(
        model,
        parts["training"],
        parts["dev"],
        TrainingSettings.from_arguments(arguments),
        _optimizer(arguments),
        make_loss(),
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={name: part.digest() for name, part in parts.items()},
        metrics=make_metrics(),
    )


def make_loss() -> dict[str, keras.losses.Loss]:
    """Returns the cross-entropy of the class."""
    return {"logits": _crossentropy("mean_with_sample_weight")}


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns the fraction of the documents that are right, and the cross-entropy."""
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.MeanMetricWrapper(_crossentropy("none"), name="crossentropy"),
    ]


def _crossentropy(reduction):
    """Cross-entropy in float32, which Keras' metric computes in the dtype of the logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)


def classes_of(training, dev) -> list[str]:
    """Returns the labels of the training documents, in alphabetical order.

    Raises:
        DataError: If there are less than two, or a dev document has another.
    """
    classes = sorted({document.label for document in training})
    if len(classes) < 2:
        raise DataError(
            "The training documents are expected to have at least two labels. "
            f"Received: {', '.join(classes)}"
        )
    check_labels(dev, classes)
    return classes


def check_labels(documents, classes) -> None:
    """Raises a `DataError` if a document has a label that is no class."""
    for document in documents:
        if document.label not in classes:
            raise DataError(
                f"{document.place}: no training document has the label {document.label!r}. "
                f"Expected one of {', '.join(classes)}."
            )


def _optimizer(arguments):
    options = {"weight_decay": arguments.weight_decay or None, **optimizer_options(arguments)}
    if arguments.optimizer == "adam":
        return keras.optimizers.Adam(arguments.learning_rate, **options)
    return keras.optimizers.SGD(arguments.learning_rate, momentum=0.9, **options)
