"""A run on stories, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.data.report import DataError
from examples.data.rows import RowBatches
from examples.questions import words
from examples.questions.stories import JOINT, Question, is_one_file, read_questions, split
from keras_attention.export.runs import Run, read_run

BATCH_SIZE = 32
PARTS = ("test", "dev", "train")


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model says to questions.

    Attributes:
        said: Words, one a question.
        probabilities: The probability of each, `(questions,)`.
        weights: List of `(num_hops, sentences)` arrays; sentences that were not read have 0.
    """

    said: list[str]
    probabilities: np.ndarray
    weights: list[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model and its words.

    Attributes:
        run: The `Run`.
        tokenizer: The tokenizer of stories, questions and answers.
        words: Ids of a sentence, padding included.
    """

    run: Run
    tokenizer: words.SentenceTokenizer
    words: int

    @property
    def model(self) -> keras.Model:
        """The model, from `story` and `question` to `logits` and `weights`."""
        return self.run.model

    @property
    def reader(self) -> keras.layers.Layer:
        """Its `MemoryHops`."""
        return self.model.get_layer("reader")

    @property
    def vocabulary(self) -> list[str]:
        """The word of each id."""
        return [
            text.decode() for text in self.tokenizer.ids_to_tokens([range(self._size)]).numpy()[0]
        ]

    @property
    def _size(self):
        return self.tokenizer.vocabulary_size

    def length(self, questions: list[Question]) -> words.Length:
        """Returns how much is read of questions and their stories."""
        return words.length(questions, self.tokenizer, self.reader.max_memories, self.words)

    def answers(self, questions: list[Question]) -> Answers:
        """Returns what the model says, and where it looked."""
        rows = words.encoded(questions, self.tokenizer, self.reader.max_memories, self.words)
        batches = RowBatches([rows], BATCH_SIZE, is_training=False)
        logits, weights = [], []
        for inputs, *_ in batches.epoch(0):
            outputs = self.model.predict_on_batch(inputs)
            logits.append(outputs["logits"])
            weights.append(outputs["weights"])
        logits = np.concatenate(logits)[: len(questions)].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        ids = logits.argmax(axis=1)
        vocabulary = self.vocabulary
        return Answers(
            [vocabulary[i] for i in ids],
            probabilities[np.arange(len(ids)), ids],
            [_of_all(w, q) for w, q in zip(np.concatenate(weights), questions, strict=False)],
        )

    def errors(self, questions: list[Question]) -> dict[str, tuple[int, int]]:
        """Returns the wrong answers and the questions of each task."""
        found = {}
        for question, said in zip(questions, self.answers(questions).said, strict=True):
            wrong, count = found.get(question.task, (0, 0))
            right = said == self.tokenizer.normalize([question.answer]).numpy()[0].decode()
            found[question.task] = (wrong + (not right), count + 1)
        return found


def _of_all(weights, question):
    """The weights of all sentences of a story, those that were too old to be read included."""
    read = weights[:, : len(question.sentences)]
    return np.pad(read, [(0, 0), (len(question.sentences) - read.shape[1], 0)])


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model and words loaded.

    Raises:
        ValueError: If it does not say how long its sentences are, or its model is another one.
    """
    run = read_run(directory)
    length = run.settings.get("words")
    if not isinstance(length, int) or length < 1:
        raise ValueError(
            f"{directory}/run.json is expected to hold the words of a sentence, a positive int. "
            f"Received: words={length!r}"
        )
    opened = Opened(run, words.load(directory), length)
    if opened.reader.vocabulary_size != opened.tokenizer.vocabulary_size:
        raise ValueError(
            f"The words of {directory} are not those of its model: {words.FOLDER} has "
            f"{opened.tokenizer.vocabulary_size}, the model {opened.reader.vocabulary_size}. "
            "Restore them from a copy."
        )
    return opened


def linear_text(directory: str) -> str:
    """Returns what to say of a run whose best weights are without softmax."""
    return (
        f"The best weights in {directory} are of the linear start, in which sentences have "
        "scores and no weights. Train on: --resume --epochs N."
    )


def read_part(run: Run, part: str, paths: list[str] | None = None) -> list[Question]:
    """Returns the questions of a part, from where the run has learned or from other paths.

    Raises:
        DataError: If there are none, or the run has learned from a file without a test part.
    """
    settings = run.settings.get("training") or {}
    task = run.settings.get("task") or JOINT
    if part == "test":
        if not paths:
            paths = settings.get("stories") or []
            _refuse_learned(paths)
        return read_questions(paths, "test", task)
    paths = paths or settings.get("stories") or []
    training, dev = split(read_questions(paths, "train", task))
    return dev if part == "dev" else training


def _refuse_learned(paths):
    """Raises if a file has no parts: all of its stories were learned from, or held out."""
    for path in paths:
        if is_one_file(path):
            raise DataError(
                f"{path}: the run has learned from this file, which has no test part. Name stories "
                "it has not seen with --stories, or measure those held out with --part dev."
            )


def add_stories(parser) -> None:
    """Adds where questions are read from."""
    parser.add_argument(
        "--stories",
        nargs="+",
        metavar="PATH",
        help="folder or archive of the bAbI tasks, ARCHIVE:FOLDER for a folder of it, or files of "
        "stories (default: where the run has learned)",
    )
    parser.add_argument(
        "--part",
        choices=PARTS,
        default="test",
        help="test questions, or of the training stories those held out or the others "
        "(default: %(default)s)",
    )
