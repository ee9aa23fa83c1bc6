"""Cloze reading: a text and a sentence with a gap in, one of the words of the text out."""

import dataclasses
import pathlib
import typing
from collections.abc import Iterator
from typing import ClassVar, Literal

import keras
import numpy as np
from keras import ops

from examples.commands import arguments
from examples.data.cloze import ClozeQuestion, ask_every_candidate, read_cloze
from examples.data.cloze_encoding import (
    PointingTokenizer,
    encode_questions,
    learn_words,
    load_words,
    shuffle_candidates,
)
from examples.data.order import pick_evenly
from examples.data.rows import RowBatches, predict_rows
from examples.recipes.base import Recipe, Served
from keras_attention import plotting
from keras_attention.export import TextInput

SMALLEST = 1e-12  # the answer may not occur
QUERY_WORDS = 512  # of a request
DESCRIPTIONS = {
    "document": "the text, words and marks apart",
    "query": "a sentence with the gap XXXXX",
    "candidates": 'words that may fill it; "" is padding',
    "probabilities": "of each candidate, summed over its mentions in the document",
    "best": "place of the most probable candidate, from 0 on",
    "attention": "how much the query attends to each word of the document",
}


def answer_crossentropy(y_true, y_pred):
    """Returns -log of the probability of the right candidate, `(batch,)`.

    Probabilities are not normalized, as `keras.losses.SparseCategoricalCrossentropy` does: what a
    document says beside the candidates counts.

    Args:
        y_true: The places of the right candidates, `(batch,)`.
        y_pred: Probabilities `(batch, candidates)`.

    Example:

    >>> losses = answer_crossentropy(ops.array([0]), ops.array([[0.5, 0.25]]))
    >>> round(float(losses[0]), 3)
    0.693
    """
    places = ops.expand_dims(ops.cast(y_true, "int32"), -1)
    of_answer = ops.squeeze(ops.take_along_axis(y_pred, places, axis=1), -1)
    return -ops.log(ops.maximum(of_answer, SMALLEST))


class AnswerCrossentropy(keras.losses.Loss):
    """The mean of `answer_crossentropy` over the questions that have a weight."""

    def __init__(self) -> None:
        super().__init__("answer_crossentropy", "mean_with_sample_weight")

    def call(self, y_true, y_pred):
        return answer_crossentropy(y_true, y_pred)


@dataclasses.dataclass(kw_only=True)
class Cloze(Recipe):
    """Reads cloze questions and fills the gap with a word of the text.

    They are in the format of the Children's Book Test, plain or gzipped.

    examples:
      names in books:
        python -m examples train {0} --questions books_ne.train.txt.gz \\
            --validation-questions books_ne.valid.txt.gz --run runs/books
      the Children's Book Test, names read as words, in the paper's sizes:
        python -m examples train {0} --questions cbtest_NE_train.txt \\
            --validation-questions cbtest_NE_valid_2000ex.txt --names words --units 256 \\
            --embedding-dim 384 --run runs/cbt

    Attributes:
        questions: The training questions.
        validation_questions: The validation questions.
        max_examples: Read the first N of each file; all by default.
        vocabulary_size: Words that are embedded, at most.
        min_frequency: How often such a word is seen in training, at least; a text counts for each
            question about it, those of --every-candidate too.
        max_words: Words of a document that are read.
        every_candidate: Train on a further question for each other candidate that a query names.
        num_buckets: Lengths to pad to; each is compiled once.
        monitor: What decides which weights are best on the validation questions.
    """

    tokenizer_names: ClassVar = ("words",)
    quick_training: ClassVar = (
        "--max-examples 64 --epochs 1 --max-words 99 --no-xla --num-buckets 1"
    )
    quick_evaluation: ClassVar = "--max-examples 32"

    questions: pathlib.Path
    validation_questions: pathlib.Path
    max_examples: int | None = None
    vocabulary_size: typing.Annotated[int, arguments.int_at_least(6)] = 20000
    min_frequency: int = 5
    max_words: int = 1000
    every_candidate: bool = False
    batch_size: int = 32
    num_buckets: int = 4
    epochs: int = 8
    monitor: Literal["accuracy", "crossentropy"] = "accuracy"

    def read_data(self) -> dict[str, list[ClozeQuestion]]:
        files = {"training": self.questions, "validation": self.validation_questions}
        parts = {name: read_cloze(file, self.max_examples) for name, file in files.items()}
        if self.every_candidate:
            asked = parts["training"]
            parts["training"] = [more for one in asked for more in ask_every_candidate(one)]
        return parts

    def make_tokenizers(self, training: list[ClozeQuestion]) -> dict[str, PointingTokenizer]:
        return {"words": learn_words(training, self.vocabulary_size, self.min_frequency)}

    def load_tokenizer(self, directory: pathlib.Path) -> PointingTokenizer:
        return load_words(directory)

    def make_batches(self, name: str, part: list[ClozeQuestion]) -> RowBatches:
        groups, _ = self._encode(part)
        is_training = name == "training"
        seed = self.seed if is_training else 0
        batches = RowBatches(groups, self.batch_size, seed, is_training, shuffle_candidates)
        longest = max(shape[0][1] for shape in batches.shapes())
        print(f"{name}: {batches}, texts of at most {longest} words")
        return batches

    def make_loss(self) -> dict[str, keras.losses.Loss]:
        return {"probabilities": AnswerCrossentropy()}

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            keras.metrics.MeanMetricWrapper(answer_crossentropy, name="crossentropy"),
        ]

    def evaluate(
        self, *, questions: pathlib.Path, max_examples: int | None = None
    ) -> dict[str, float | int]:
        """Measures a run on questions that it has not seen.

        examples:
          python -m examples evaluate runs/books --questions books_ne.test.txt.gz

        what the numbers mean:
          accuracy           fraction of the gaps that are filled rightly, in %
          most frequent      the same of the candidate that stands most often in the text
          out of reach       fraction of the questions whose answer is not in the text that is read,
                             in %

        Args:
            questions: The questions.
            max_examples: The first N; all by default.

        Returns:
            The numbers.
        """
        asked = read_cloze(questions, max_examples)
        right = frequent = absent = 0
        for question, answer in zip(asked, self.predict(asked), strict=True):
            read = question.document.split()[: self.max_words]
            counts = [read.count(candidate) for candidate in question.candidates]
            most_frequent = question.candidates[counts.index(max(counts))]  # the first of several
            right += _choose(question, answer) == question.answer
            frequent += most_frequent == question.answer
            absent += question.answer not in read
        return {
            "questions": len(asked),
            "accuracy": 100 * right / len(asked),
            "most_frequent": 100 * frequent / len(asked),
            "out_of_reach": 100 * absent / len(asked),
        }

    def predict(self, questions: list[ClozeQuestion]) -> list[dict[str, np.ndarray]]:
        """Returns for each question the `probabilities` of its candidates and the `weights`."""
        return predict_rows(self.model, *self._encode(questions), self.batch_size)

    def plot(self, *, questions: pathlib.Path, count: int = 4) -> Iterator[tuple[str, object]]:
        """Draws which words of a text a query attends to.

        examples:
          python -m examples plot runs/books --questions books_ne.test.txt.gz --output-dir plots

        Writes question_1.png and question_1.html, ...: the text, each word shaded by its weight,
        and where the query has weights of its own, query_1.png. The weights of all mentions of a
        candidate add up to its probability.

        Args:
            questions: The questions.
            count: Questions to draw, spread over the file.

        Yields:
            The name of a file, and its figure or page.
        """
        chosen = pick_evenly(read_cloze(questions), count)
        for number, (question, answer) in enumerate(
            zip(chosen, self.predict(chosen), strict=True), 1
        ):
            query = question.query.split()
            # The query stands last to be seen, without weights.
            lines = [*(sentence.split() for sentence in question.sentences), query]
            weights = _split(answer["weights"], lines[:-1]) + [np.zeros(len(query))]
            drawn, title = (lines, weights), _describe(question, answer)
            yield f"question_{number}.png", plotting.plot_text_weights(*drawn, title=title)
            yield f"question_{number}.html", plotting.text_weights_html(*drawn, title=title)
            if "query_weights" in answer:
                of_query = [answer["query_weights"][: len(query)]]
                figure = plotting.plot_text_weights([query], of_query, title="the query's words")
                yield f"query_{number}.png", figure

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/books served          writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `document` (batch) and `query` (batch), texts whose words and marks stand
        apart, the gap written XXXXX, and `candidates` (batch, candidates), words, "" where a
        question has fewer. The answer holds `probabilities` (batch, candidates), `best` (batch),
        the place of the largest from 0 on, and `attention` (batch, document).

        Returns:
            What is written.
        """
        limits = {"document": self.max_words, "query": QUERY_WORDS, "candidates": 1}
        inputs = {
            name: keras.Input([None], dtype="int32", name=name) for name in ("document", "query")
        }
        # A text of one word is a list of one id.
        inputs["candidates"] = keras.Input([None, 1], dtype="int32", name="candidates")
        outputs = self.model({**inputs, "candidates": inputs["candidates"][:, :, 0]})
        answers = {
            "probabilities": outputs["probabilities"],
            "best": ops.argmax(outputs["probabilities"], axis=-1),
            "attention": outputs["weights"],
        }
        words = self.tokenizers["words"]
        return Served(
            keras.Model(inputs, answers, name=self.run.settings["model"]),
            DESCRIPTIONS,
            {name: TextInput(words, max_length=limit) for name, limit in limits.items()},
        )

    def _encode(self, questions):
        return encode_questions(
            questions, self.tokenizers["words"], self.max_words, self.num_buckets, self.batch_size
        )


def _choose(question, answer):
    """The most probable candidate."""
    return question.candidates[int(answer["probabilities"][: len(question.candidates)].argmax())]


def _split(weights, sentences):
    """The weights of the words of each sentence, 0 of those that were not read."""
    ends = np.cumsum([len(words) for words in sentences])
    weights = np.pad(weights[: ends[-1]], (0, max(0, ends[-1] - len(weights))))
    return np.split(weights, ends[:-1])


def _describe(question, answer):
    """The answer, and what is right if it is wrong."""
    best = _choose(question, answer)
    expected = "" if best == question.answer else f", expected {question.answer}"
    return f"{best} ({100 * answer['probabilities'].max():.0f} %){expected}"
