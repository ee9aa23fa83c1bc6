"""The training of document classifiers: options, documents, words, batches and the loss."""

import argparse
import dataclasses
import pathlib
import typing
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import NonNegativeFloat
from examples.data.classification import Document, is_same_file, read_documents
from examples.data.classification_encoding import encode_documents
from examples.data.report import DataError
from examples.data.rows import RowBatches
from examples.recipes.base import Recipe
from keras_attention.export import tokenizers


def parse_folds(text: str) -> list[int]:
    """Returns the folds that a text such as `0-6` or `0,2,5` names, ascending.

    Example:

    >>> parse_folds("0-2,7")
    [0, 1, 2, 7]
    """
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        if any(len(part) > 2 or part[0] > part[-1] for part in ends):
            raise ValueError(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected folds such as 7, 0-6 or 0,2,5, got {text!r}"
        ) from None
    return sorted({fold for part in ends for fold in range(part[0], part[-1] + 1)})


Folds = typing.Annotated[list[int], parse_folds]


@dataclasses.dataclass(kw_only=True)
class ClassificationTraining(Recipe):
    """Options, data and training of classifiers of documents; see `Classification`.

    Attributes:
        documents: Training documents, plain or gzip.
        folds: Folds of it to train on, such as 0-6 or 0,2,5; all documents by default.
        validation_documents: Validation documents; those of --documents by default.
        validation_folds: Folds of those; all documents by default.
        min_frequency: Words seen less often in the training documents are unknown.
        lowercase: Lower-case the documents.
        max_sentences: Sentences of a document that are read, the rest is cut off.
        max_words: Words of a sentence that are read, the rest is cut off.
        num_buckets: Numbers of sentences to pad to; each is compiled once.
        monitor: What decides which weights are best on the validation documents.
        optimizer: SGD is the paper's, with momentum 0.9.
        weight_decay: Fraction of each weight taken off in a step, times the learning rate.
    """

    tokenizer_names: ClassVar = ("words",)
    training_fields: ClassVar = ("monitor", "optimizer", "weight_decay")
    quick_training: ClassVar = "--epochs 1 --max-sentences 3 --max-words 5 --no-xla --num-buckets 1"

    documents: pathlib.Path
    folds: Folds | None = None
    validation_documents: pathlib.Path | None = None
    validation_folds: Folds | None = None
    min_frequency: int = 3
    lowercase: bool = False
    max_sentences: int = 80
    max_words: int = 50
    batch_size: int = 16
    num_buckets: int = 5
    epochs: int = 20
    monitor: Literal["crossentropy", "accuracy"] = "crossentropy"
    optimizer: Literal["adam", "sgd"] = "adam"
    weight_decay: NonNegativeFloat = 0.0
    clip_norm: NonNegativeFloat = 1.0

    #: Names of the classes, in the order of the probabilities.
    classes: list[str] = dataclasses.field(default_factory=list, init=False, repr=False)

    def check(self) -> None:
        if not self.validation_documents and not self.validation_folds:
            raise UsageError(
                "Name the validation documents: --validation-documents FILE, or "
                "--validation-folds of the same file."
            )
        if not is_same_file(self.documents, self.validation_documents or self.documents):
            return
        if self.folds is None or self.validation_folds is None:
            raise UsageError(
                "--documents and the validation documents are one file. Say with --folds and "
                "--validation-folds which part is which."
            )
        both = sorted(set(self.folds) & set(self.validation_folds))
        if both:
            raise UsageError(
                f"Fold {', '.join(map(str, both))} is in both --folds and --validation-folds. Take "
                "it out of one."
            )

    def read_data(self) -> dict[str, list[Document]]:
        training = read_documents(self.documents, self.folds)
        validation = read_documents(
            self.validation_documents or self.documents, self.validation_folds
        )
        self.classes = sorted({document.label for document in training})
        if len(self.classes) < 2:
            raise DataError(
                "The training documents are expected to have at least two labels. "
                f"Received: {', '.join(self.classes)}"
            )
        self.check_labels(validation)
        print(f"classes: {', '.join(self.classes)}")
        return {"training": training, "validation": validation}

    def check_labels(self, documents: list[Document]) -> None:
        """Raises a `DataError` if a document has a label that is no class."""
        for document in documents:
            if document.label not in self.classes:
                raise DataError(
                    f"{document.place}: no training document has the label {document.label!r}. "
                    f"Expected one of {', '.join(self.classes)}."
                )

    def make_tokenizers(self, training: list[Document]) -> dict[str, tokenizers.Tokenizer]:
        found = tokenizers.train(
            "words",
            (sentence for document in training for sentence in document.sentences),
            min_frequency=self.min_frequency,
            lowercase=self.lowercase,
        )
        return {"words": found}

    def get_sizes(self) -> tuple[int, ...]:
        return (*super().get_sizes(), len(self.classes))

    def make_batches(self, name: str, part: list[Document]) -> RowBatches:
        is_training = name == "training"
        num_buckets = self.num_buckets if is_training else min(3, self.num_buckets)
        groups, _, length = self._encode(part, num_buckets)
        seed = self.seed if is_training else 0
        batches = RowBatches(groups, self.batch_size, seed, drop_remainder=False)
        print(f"{name}: {length}; {batches}")
        return batches

    def make_optimizer(self, model: keras.Model, batches: object) -> keras.optimizers.Optimizer:
        options = {"weight_decay": self.weight_decay or None, **self.get_optimizer_options()}
        if self.optimizer == "adam":
            return keras.optimizers.Adam(self.learning_rate, **options)
        return keras.optimizers.SGD(self.learning_rate, momentum=0.9, **options)

    def make_loss(self) -> dict[str, keras.losses.Loss]:
        return {"logits": _make_crossentropy("mean_with_sample_weight")}

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            keras.metrics.MeanMetricWrapper(_make_crossentropy("none"), name="crossentropy"),
        ]

    def describe(self, batches: dict[str, object]) -> dict[str, object]:
        return {"classes": self.classes}

    def _encode(self, documents, num_buckets):
        words, limits = self.tokenizers["words"], (self.max_sentences, self.max_words)
        return encode_documents(
            documents, words, self.classes, *limits, num_buckets, self.batch_size
        )


def _make_crossentropy(reduction):
    """Cross-entropy in float32, which Keras' metric computes in the dtype of the logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
