"""Classifiers of documents: sentences in, a class out."""

import argparse
import dataclasses
import math
import pathlib
import typing
from collections.abc import Iterator
from typing import ClassVar, Literal

import keras
import numpy as np
from keras import ops

from examples.commands.arguments import UsageError
from examples.commands.options import NonNegativeFloat, Positional
from examples.data.classification import Document, is_same_file, read_documents, split_sentences
from examples.data.classification_encoding import Length, encode_documents
from examples.data.order import pick_evenly
from examples.data.report import DataError
from examples.data.rows import RowBatches, predict_rows
from examples.label_lookup import LabelLookup
from examples.models import naive_bayes
from examples.recipes.base import Recipe, Served
from keras_attention import plotting
from keras_attention.export import TextInput, tokenizers
from keras_attention.export.runs import Run

DESCRIPTIONS = {
    "sentences": "the sentences of each document, of which the first {sentences} are read, their "
    'words between spaces, of which the first {words} are; "" is none',
    "class": "name of the most probable class",
    "class_id": "its number: {numbers}",
    "probabilities": "of the classes, in this order: {classes}",
    "word_weights": "how much each word that is read counts in its sentence",
    "sentence_weights": "how much each sentence that is read counts in its document",
}


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


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a classifier says of a document, padding cut off.

    Attributes:
        probabilities: Array `(classes,)`.
        tokens: For each sentence that is read, its words; unknown ones as they were written.
        word_weights: For each of them an array `(words,)`.
        sentence_weights: Array `(sentences,)`.
    """

    probabilities: np.ndarray
    tokens: list[list[str]]
    word_weights: list[np.ndarray]
    sentence_weights: np.ndarray


@dataclasses.dataclass(kw_only=True)
class Classification(Recipe):
    """Learns classes of documents from a file of JSON lines.

    examples:
      movie reviews, D the folder of the data sets; folds 0 to 6 of one file to train on, 7 to
      validate:
        python -m examples train {0} --run runs/reviews \\
            --documents D/movie_reviews/movie_reviews.folds0-8.jsonl.gz --folds 0-6 \\
            --validation-folds 7
      your own files, without folds:
        python -m examples train {0} --run runs/mine --documents train.jsonl \\
            --validation-documents validation.jsonl

    A line is {{"label": "pos", "sentences": ["a good film .", "see it ."]}}, its words between
    spaces; beside these, "fold" (a number) and "id" are read.

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

    # Training.

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

    # A run.

    def load(self, run: Run) -> None:
        super().load(run)
        classes, words = run.settings.get("classes"), self.tokenizers["words"].vocabulary_size
        if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
            raise ValueError(
                f"{run.directory}/run.json is expected to name `classes`. Restore it from a copy. "
                f"Received: classes={classes!r}"
            )
        known, outputs = self.model.get_layer("words").input_dim, self.model.output["logits"]
        if (known, outputs.shape[-1]) != (words, len(classes)):
            raise ValueError(
                f"The parts of the run {run.directory} do not belong together: the model knows "
                f"{known} words and {outputs.shape[-1]} classes, words.tokenizer has {words} words "
                f"and run.json {len(classes)} classes. Restore all from the same copy."
            )
        self.classes = classes

    def evaluate(
        self,
        *,
        documents: pathlib.Path,
        folds: Folds | None = None,
        naive_bayes_folds: Folds | None = None,
    ) -> dict[str, object]:
        """Measures a run on documents that it has not seen.

        examples:
          python -m examples evaluate runs/reviews --documents D/reviews.jsonl.gz --folds 8
          and naive Bayes, trained on folds 0 to 7 of the same file, on the same documents:
          python -m examples evaluate runs/reviews --documents D/reviews.jsonl.gz --folds 8 \\
              --naive-bayes-folds 0-7

        what the numbers mean:
          accuracy            percent of the documents whose class is right, with its standard error
          loss                -log of the probability of the right class, a document
          by fold, by class   the accuracy of each
          naive bayes         the accuracy of naive Bayes on the presence of words

        Args:
            documents: Labeled documents, plain or gzip.
            folds: Folds of them; all documents by default.
            naive_bayes_folds: Train naive Bayes on these folds of the same file and measure it
                too; by default do not.

        Returns:
            The numbers.
        """
        if naive_bayes_folds and (folds is None or set(naive_bayes_folds) & set(folds)):
            raise UsageError(
                "--naive-bayes-folds are trained on: they must differ from those that are "
                "measured, which --folds names."
            )
        learned = self.find_learned_folds(documents, folds)
        found = read_documents(documents, folds)
        self.check_labels(found)
        outputs, length = self.predict(found)
        print(f"documents: {length}")
        if learned:
            print(f"The run has learned from fold {', '.join(map(str, learned))}.")
        numbers = self.measure(np.stack([each["probabilities"] for each in outputs]), found)
        if naive_bayes_folds:
            classify = naive_bayes.train(read_documents(documents, naive_bayes_folds))
            numbers["naive_bayes"] = 100 * naive_bayes.accuracy(classify, found)
        return numbers

    def find_learned_folds(self, path: pathlib.Path, folds: list[int] | None) -> list[int]:
        """Returns which folds of a file the run has learned from, of those that are asked for.

        Raises:
            DataError: If it has learned from some and none are asked for by number.
        """
        if not is_same_file(self.documents or "", path):
            return []
        known = self.folds
        if folds is None:
            which = "" if known is None else f"fold {', '.join(map(str, known))} of "
            raise DataError(
                f"{path}: the run has learned from {which}this file. Name documents that it has "
                "not seen, or with --folds those folds that are to be measured."
            )
        return [fold for fold in folds if known is None or fold in known]

    def measure(self, probabilities: np.ndarray, documents: list[Document]) -> dict[str, object]:
        """Returns the numbers of `probabilities` `(documents, classes)`; accuracies in percent.

        Example:

        >>> recipe = Classification(documents=pathlib.Path("films.jsonl"))
        >>> recipe.classes = ["a", "b"]
        >>> films = [Document("1", "a", (".",), 3), Document("2", "b", (".",), 3)]
        >>> numbers = recipe.measure(np.array([[0.5, 0.5], [0.75, 0.25]]), films)
        >>> numbers["accuracy"], numbers["by_class"]
        (50.0, {'a': 100.0, 'b': 0.0})
        """
        labels = np.array([self.classes.index(document.label) for document in documents])
        right = probabilities.argmax(axis=1) == labels
        given = probabilities[np.arange(len(labels)), labels]
        numbers = {
            "documents": len(labels),
            "accuracy": 100 * float(right.mean()),
            "standard_error": 100 * math.sqrt(right.mean() * (1 - right.mean()) / len(labels)),
            "loss": float(-np.log(np.maximum(given, 1e-300)).mean()),
        }
        by_fold = _measure_groups(right, [document.fold for document in documents])
        if len(by_fold) > 1:
            numbers["by_fold"] = {
                "none" if fold is None else str(fold): accuracy
                for fold, accuracy in by_fold.items()
            }
        by_class = _measure_groups(right, [document.label for document in documents])
        return {**numbers, "by_class": by_class}

    def predict(self, documents: list[Document]) -> tuple[list[dict[str, np.ndarray]], Length]:
        """Returns `probabilities` and weights of each document, and how much is read of them."""
        groups, places, length = self._encode(documents, self.num_buckets)
        outputs = predict_rows(self.model, groups, places, self.batch_size)
        logits = np.stack([output["logits"] for output in outputs]).astype(np.float64)
        for output, row in zip(outputs, ops.convert_to_numpy(ops.softmax(logits)), strict=True):
            output["probabilities"] = row
        return outputs, length

    def read(self, document: Document) -> Reading:
        """Returns what the model says of one document, and where it looks."""
        (output,), _ = self.predict([document])
        sentences = list(document.sentences[: self.max_sentences])
        texts = self.tokenizers["words"].normalize(sentences).numpy()
        tokens = [text.decode().split(" ")[: self.max_words] for text in texts]
        weights = output["word_weights"].astype("float32")
        return Reading(
            output["probabilities"],
            tokens,
            [row[: len(words)] for row, words in zip(weights, tokens, strict=True)],
            output["sentence_weights"].astype("float32"),
        )

    def plot(
        self,
        *,
        texts: Positional = (),
        documents: pathlib.Path | None = None,
        folds: Folds | None = None,
        count: int = 4,
    ) -> Iterator[tuple[object, ...]]:
        """Shades documents by the words and sentences a model attends to.

        examples:
          python -m examples plot runs/reviews --output-dir plots \\
              --documents D/reviews.jsonl.gz --folds 8
          python -m examples plot runs/reviews --output-dir plots \\
              "a dull story . but what a cast !"

        A TEXT is a document: its words between spaces, a sentence ends at . ! ? or the line. Writes
        document_1.png and document_1.html, document_2.png, ...: words on blue and sentences beside
        red, darker where they count more. What the model cuts off is not shown.

        Args:
            texts: Documents to draw.
            documents: Draw some of these documents, plain or gzip.
            folds: Folds of them; all documents by default.
            count: How many, spread evenly over them.

        Yields:
            The name of a file, and its figure or page.
        """
        if bool(texts) == bool(documents):
            raise UsageError("Name what to draw: TEXT ..., or a file with --documents.")
        sentences = [split_sentences(text) for text in texts]
        if not all(sentences):
            raise UsageError("A text to draw is empty. Leave it out.")
        chosen = [Document(f"text {n}", "", each) for n, each in enumerate(sentences, 1)]
        if documents:
            chosen = pick_evenly(read_documents(documents, folds), count)
        for number, document in enumerate(chosen, 1):
            reading = self.read(document)
            drawn = reading.tokens, reading.word_weights, reading.sentence_weights
            best = int(reading.probabilities.argmax())
            percent = f"{100 * reading.probabilities[best]:.0f} %"
            right = f", labeled {document.label}" if document.label else ""
            title = f"{document.name}: {self.classes[best]} ({percent}){right}"
            yield f"document_{number}.png", plotting.plot_text_weights(*drawn, title=title)
            yield f"document_{number}.html", plotting.text_weights_html(*drawn, title=title)

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/reviews served        writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `sentences`, texts `(batch, sentences)`, "" where a document has fewer; the
        answer holds `class`, the name of the most probable class, its number `class_id`,
        `probabilities`, `word_weights` and `sentence_weights`. Sentences and words beyond the run's
        --max-sentences and --max-words are cut off, as `evaluate` does, and have no weights.

        Returns:
            What is written.
        """
        sentences = keras.Input([None, None], dtype="int32", name="sentences")
        outputs = self.model({"sentences": sentences[:, : self.max_sentences]})
        probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
        best = ops.argmax(probabilities, axis=-1)
        answers = {
            "class": LabelLookup(self.classes, name="class_names")(best),
            "class_id": best,
            "probabilities": probabilities,
            "word_weights": outputs["word_weights"],
            "sentence_weights": outputs["sentence_weights"],
        }
        told = {
            "sentences": self.max_sentences,
            "words": self.max_words,
            "classes": ", ".join(self.classes),
            "numbers": ", ".join(f"{n} {name}" for n, name in enumerate(self.classes)),
        }
        return Served(
            keras.Model({"sentences": sentences}, answers, name=self.run.settings["model"]),
            {name: description.format(**told) for name, description in DESCRIPTIONS.items()},
            {"sentences": TextInput(self.tokenizers["words"], max_length=self.max_words)},
        )

    def _encode(self, documents, num_buckets):
        words, limits = self.tokenizers["words"], (self.max_sentences, self.max_words)
        return encode_documents(
            documents, words, self.classes, *limits, num_buckets, self.batch_size
        )


def _make_crossentropy(reduction):
    """Cross-entropy in float32, which Keras' metric computes in the dtype of the logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)


def _measure_groups(right, names):
    """The accuracy of each group of documents in %, by its name; None comes first."""
    ordered = sorted(set(names), key=lambda name: (name is not None, name))
    names = np.array(names, object)
    return {name: 100 * float(right[names == name].mean()) for name in ordered}
