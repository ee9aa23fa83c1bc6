"""A trained classifier, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.classification.batches import DocumentBatches, encode_documents
from examples.classification.documents import Document
from examples.classification.train import WORDS
from keras_attention.export import tokenizers
from keras_attention.export.runs import Run, read_run
from keras_attention.export.tokenizers import Tokenizer


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


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained classifier with its words and classes.

    Attributes:
        run: The `Run`.
        tokenizer: The tokenizer of its words.
        classes: Names of the classes, in the order of the probabilities.
        max_sentences, max_words: What it reads of a document.
    """

    run: Run
    tokenizer: Tokenizer
    classes: list[str]
    max_sentences: int
    max_words: int

    @property
    def model(self) -> keras.Model:
        """The model, from `sentences` to `logits` and both levels' weights."""
        return self.run.model

    def batches(self, documents: list[Document], batch_size: int = 16) -> DocumentBatches:
        """Returns documents as batches, as they were cut for the training."""
        encoded = encode_documents(
            documents, self.tokenizer, self.classes, self.max_sentences, self.max_words
        )
        return DocumentBatches(encoded, batch_size=batch_size)

    def probabilities(self, batches: DocumentBatches) -> np.ndarray:
        """Returns the probabilities of each document's classes, `(documents, classes)`."""
        found = np.zeros((len(batches.encoded), len(self.classes)))
        for ids, *_, rows in batches.in_order():
            found[rows] = _softmax(self.model.predict_on_batch({"sentences": ids})["logits"])[
                : len(rows)
            ]
        return found

    def read(self, document: Document) -> Reading:
        """Returns what the model says of one document, and where it looks."""
        ids = self.batches([document]).encoded.ids[0]
        answer = self.model.predict_on_batch({"sentences": ids[None]})
        texts = self.tokenizer.normalize(list(document.sentences[: len(ids)])).numpy()
        tokens = [text.decode().split(" ")[: self.max_words] for text in texts]
        weights = zip(answer["word_weights"][0].astype("float32"), tokens, strict=True)
        return Reading(
            _softmax(answer["logits"])[0],
            tokens,
            [row[: len(words)] for row, words in weights],
            answer["sentence_weights"][0].astype("float32"),
        )


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model and words loaded.

    Raises:
        ValueError: If it does not say its classes and limits, or words and model do not fit.
        FileNotFoundError: If its words are missing.
    """
    run = read_run(directory)
    classes, limits = run.settings.get("classes"), run.settings.get("limits")
    try:
        sizes = [int(limits[name]) for name in ("sentences", "words")]
        if not all(isinstance(name, str) for name in classes):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{directory}/run.json is expected to name `classes` and the `limits` of sentences and "
            f"words. Restore it from a copy. Received: classes={classes!r}, limits={limits!r}"
        ) from None
    tokenizer = tokenizers.load(run.directory / WORDS)
    known, outputs = run.model.get_layer("words").input_dim, run.model.output["logits"].shape[-1]
    if (known, outputs) != (tokenizer.vocabulary_size, len(classes)):
        raise ValueError(
            f"The parts of the run {directory} do not belong together: the model knows {known} "
            f"words and {outputs} classes, {WORDS} has {tokenizer.vocabulary_size} words and "
            f"run.json {len(classes)} classes. Restore all from the same copy."
        )
    return Opened(run, tokenizer, list(classes), *sizes)


def _softmax(logits):
    logits = np.asarray(logits, np.float64)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
