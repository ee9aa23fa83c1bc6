"""Questions about stories, as in the bAbI tasks: sentences and a question in, a word out."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import keras
import numpy as np

from examples.commands.arguments import UsageError
from examples.data.babi import Question, is_one_file, read_questions, split
from examples.data.babi_encoding import Length, measure_length
from examples.data.order import pick_evenly
from examples.data.report import DataError
from examples.data.rows import predict_rows
from examples.label_lookup import LabelLookup
from examples.recipes.babi_training import LINEAR_TEXT, BabiTraining
from examples.recipes.base import Served
from keras_attention import plotting
from keras_attention.export import TextInput
from keras_attention.export.runs import Run, read_run

Part = Literal["test", "validation", "train"]
PASSED = 5.0
LAST_SENTENCES = 30
DESCRIPTIONS = {
    "story": "sentences, the oldest first, of which the last {memories} are read, and of each the "
    'first {words} words; "" is padding',
    "question": "what is asked, of which the first {words} words are read; upper case and the "
    "marks that end sentences count for nothing",
    "answer": "the word that answers",
    "answer_id": "its number in the run's `vocabulary`",
    "probability": "its probability",
    "probabilities": "those of all words",
    "attention": "how much each reading attended to each sentence, 0 where it is not read; "
    "what is missing to a sum of 1 went to no sentence",
}


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model answers to a question.

    Attributes:
        word: The answer.
        probability: Its probability.
        weights: Array `(num_hops, sentences)`; sentences that were not read have 0.
    """

    word: str
    probability: float
    weights: np.ndarray


@dataclasses.dataclass(kw_only=True)
class Babi(BabiTraining):
    """Reads stories with questions, the bAbI tasks or yours in their format.

    Of each task every tenth training story is held out as validation data.

    examples:
      the first bAbI task, from the archive as it is, or from the folder it holds:
        python -m examples train {0} --stories babi_en_1k.tar.xz --task 1 --run runs/task1
        python -m examples train {0} --stories tasks_1-20_v1-2/en --task 1 --run runs/task1
      from the official archive, which has them in six folders (en, en-10k, hn, shuffled, ...):
        python -m examples train {0} --stories tasks_1-20_v1-2.tar.gz:en --task 1 --run runs/task1
      all tasks together, larger, as the paper has it, by the schedule of its authors' code:
        python -m examples train {0} --stories babi_en_1k.tar.xz --units 50 --epochs 90 \\
            --lr-decay-every 15 --learning-rate 0.005 --linear-epochs 30 --linear-patience 30 \\
            --run runs/joint
      your own stories:
        python -m examples train {0} --stories mine.txt --run runs/mine
    """

    def load(self, run: Run) -> None:
        super().load(run)
        known, words = self.reader.vocabulary_size, self.tokenizers["words"].vocabulary_size
        if known != words:
            raise ValueError(
                f"The words of {run.directory} are not those of its model: words.tokenizer has "
                f"{words}, the model {known}. Restore them from a copy."
            )

    def evaluate(
        self,
        *,
        stories: list[str] | None = None,
        part: Part = "test",
        others: list[str] | None = None,
    ) -> dict[str, object]:
        """Measures a run on questions that it has not seen.

        examples:
          python -m examples evaluate runs/task1                      the test questions
          python -m examples evaluate runs/task1 --part validation    those it was chosen by
          python -m examples evaluate runs/task1-seed1 --others runs/task1-seed2 runs/task1-seed3
          python -m examples evaluate runs/mine --stories my_test.txt

        what the numbers mean:
          error              fraction of the answers that are wrong, in %; of several tasks, their
                             mean
          passed             tasks with at most 5 % wrong answers
          cut ...            sentences beyond the most recent ones that the memory holds
                             (--max-memories of the training), and words beyond the longest sentence
                             that was trained on

        With --others, runs of the same tasks with other seeds, every run is measured, and the one
        with the fewest wrong answers on its validation questions is the one that counts: the test
        decides nothing.

        Args:
            stories: Folder or archive of the bAbI tasks, ARCHIVE:FOLDER for a folder of it, or
                files of stories; where the run has learned by default.
            part: Test questions, or of the training stories those held out or the others.
            others: Runs with other seeds, of which the best by validation error counts; none by
                default.

        Returns:
            The numbers.
        """
        recipes = [self, *(self.from_run(read_run(name)) for name in others or ())]
        measured = [recipe.measure(part, stories, bool(others)) for recipe in recipes]
        if not others:
            return measured[0]
        for one in measured:
            print(
                f"{one['run']}: validation error {one['validation_error']:.2f} %, {part} error "
                f"{one['error']:.2f} %"
            )
        best = min(measured, key=lambda one: one["validation_error"])  # the first if equal
        print(f"best by validation error: {best['run']}")
        return {**best, "runs": measured}

    def measure(
        self, part: Part, stories: list[str] | None, measure_validation: bool
    ) -> dict[str, object]:
        """Returns the errors of the run in %: of each task, their mean, that of validation data."""
        if self.reader.is_linear():
            print(f"{self.run.directory}: {LINEAR_TEXT}")
        questions = self.read_part(part, stories)
        length = self.measure_length(questions)
        print(f"{self.run.directory}: {length}")
        tasks = self.measure_errors(questions)
        numbers = {
            "run": str(self.run.directory),
            "seed": self.seed,
            "part": part,
            **dataclasses.asdict(length),
            "tasks": tasks,
            "error": _mean(tasks),
            "passed": sum(error <= PASSED for error in tasks.values()),
        }
        if measure_validation:
            numbers["validation_error"] = _mean(self.measure_errors(self.read_part("validation")))
        return numbers

    def read_part(self, part: Part, stories: list[str] | None = None) -> list[Question]:
        """Returns the questions of a part, from where the run has learned or from other paths.

        Raises:
            DataError: If there are none, or the run has learned from a file without a test part.
        """
        learned = [path for path in self.stories if is_one_file(path)]
        if learned and part == "test" and not stories:
            raise DataError(
                f"{learned[0]}: the run has learned from this file, which has no test part. Name "
                "stories it has not seen with --stories, or measure those held out with --part "
                "validation."
            )
        file_part = "test" if part == "test" else "train"
        questions = read_questions(stories or self.stories, file_part, self.task)
        return questions if part == "test" else split(questions)[part == "validation"]

    def measure_length(self, questions: list[Question]) -> Length:
        """Returns how much is read of questions and their stories."""
        words = self.tokenizers["words"]
        return measure_length(questions, words, self.max_memories, self.max_words)

    def measure_errors(self, questions: list[Question]) -> dict[str, float]:
        """Returns how many answers are wrong of each task, in %."""
        expected = self.tokenizers["words"].normalize([q.answer for q in questions]).numpy()
        wrong = {}
        for question, word, answer in zip(
            questions, expected, self.predict(questions), strict=True
        ):
            wrong.setdefault(question.task, []).append(answer.word != word.decode())
        return {task: 100 * sum(found) / len(found) for task, found in wrong.items()}

    def predict(self, questions: list[Question]) -> list[Answer]:
        """Returns the answers of the model."""
        places, vocabulary = [np.arange(len(questions))], self.vocabulary
        outputs = predict_rows(self.model, [self._encode(questions)], places, self.batch_size)
        logits = np.stack([output["logits"] for output in outputs]).astype(np.float64)
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return [
            Answer(vocabulary[row.argmax()], row.max(), _weigh_all(output["weights"], question))
            for row, output, question in zip(probabilities, outputs, questions, strict=True)
        ]

    def plot(
        self,
        *,
        stories: list[str] | None = None,
        part: Part = "test",
        count: int = 4,
        question: str | None = None,
        sentences: list[str] | None = None,
    ) -> Iterator[tuple[object, ...]]:
        """Draws which sentences each reading of a story attends to.

        examples:
          python -m examples plot runs/task1 --output-dir plots              four test questions
          python -m examples plot runs/task1 --output-dir plots --count 9
          python -m examples plot runs/task1 --output-dir plots --question "Where is Mary?" \\
              --sentences "Mary went to the garden." "John went to the kitchen."

        Writes story_1.png, story_2.png, ...: the sentences from the oldest to the most recent, a
        column a hop. A + stands before the sentences that the question needs, where the data says
        so. What is missing to a sum of 1 in a column went to no sentence. Sentences and words that
        the model cuts off are counted; the sentences have no weight.

        Args:
            stories: Folder or archive of the bAbI tasks, ARCHIVE:FOLDER for a folder of it, or
                files of stories; where the run has learned by default.
            part: Test questions, or of the training stories those held out or the others.
            count: Questions to draw, spread over the part.
            question: Ask this instead, about --sentences.
            sentences: What --question is about.

        Yields:
            The name of a file and its figure.
        """
        if bool(question) != bool(sentences):
            raise UsageError("A story of your own needs both --sentences and --question.")
        self._refuse_linear()
        if question:
            chosen = [Question("", 0, tuple(sentences), question, "")]
        else:
            chosen = pick_evenly(self.read_part(part, stories), count)
        length = self.measure_length(chosen)
        if length.is_cut:
            print(length)
        for number, pair in enumerate(zip(chosen, self.predict(chosen), strict=True), 1):
            yield f"story_{number}.png", _draw(*pair)

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/task1 served          writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `story` (batch, sentences), texts from the oldest sentence to the most
        recent, "" where a story has fewer, and `question` (batch). The answer holds `answer`, a
        word, its number `answer_id` and its `probability`, `probabilities` of all words, and
        `attention` (batch, hops, sentences). The model card lists the words by number.

        Returns:
            What is written.
        """
        self._refuse_linear()
        outputs = self.model.output
        probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
        best = keras.ops.argmax(outputs["logits"], axis=-1)
        answers = {
            "answer": LabelLookup(self.vocabulary, name="words")(best),
            "answer_id": best,
            "probability": keras.ops.max(probabilities, axis=-1),
            "probabilities": probabilities,
            "attention": outputs["weights"],
        }
        limits = {"memories": self.max_memories, "words": self.max_words}
        text = TextInput(self.tokenizers["words"], max_length=self.max_words)
        return Served(
            keras.Model(self.model.input, answers, name=self.run.settings["model"]),
            {name: description.format(**limits) for name, description in DESCRIPTIONS.items()},
            {"story": text, "question": text},
        )

    def _refuse_linear(self):
        if self.reader.is_linear():
            raise ValueError(f"{self.run.directory}: {LINEAR_TEXT}")


def _mean(tasks):
    return sum(tasks.values()) / len(tasks)


def _weigh_all(weights, question):
    """The weights of all sentences of a story, those that were too old to be read included."""
    read = weights[:, : len(question.sentences)]
    return np.pad(read, [(0, 0), (len(question.sentences) - read.shape[1], 0)])


def _draw(question, answer):
    """The figure of one question."""
    first = max(0, len(question.sentences) - LAST_SENTENCES)
    marked = [
        f"+ {text}" if place in question.support else text
        for place, text in enumerate(question.sentences)
    ]
    is_wrong = question.answer not in ("", answer.word)
    expected = f", expected {question.answer}" if is_wrong else ""
    return plotting.plot_alignment(
        np.clip(answer.weights[:, first:].T, 0.0, 1.0),
        [f"hop {hop}" for hop in range(1, len(answer.weights) + 1)],
        marked[first:],
        title=f"{question.question}\n{answer.word} ({100 * answer.probability:.0f} %){expected}",
    )
