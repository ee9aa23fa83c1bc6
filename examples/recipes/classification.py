"""Classifiers of documents: sentences in, a class out."""

import dataclasses
import math
import pathlib
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from examples.commands.arguments import UsageError
from examples.commands.options import Positional
from examples.data.classification import Document, is_same_file, read_documents, split_sentences
from examples.data.classification_encoding import Length
from examples.data.order import pick_evenly
from examples.data.report import DataError
from examples.data.rows import predict_rows
from examples.label_lookup import LabelLookup
from examples.models import naive_bayes
from examples.recipes.base import Served
from examples.recipes.classification_training import ClassificationTraining, Folds
from keras_attention import plotting
from keras_attention.export import TextInput
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
class Classification(ClassificationTraining):
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
    """

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


def _measure_groups(right, names):
    """The accuracy of each group of documents in %, by its name; None comes first."""
    ordered = sorted(set(names), key=lambda name: (name is not None, name))
    names = np.array(names, object)
    return {name: 100 * float(right[names == name].mean()) for name in ordered}
