"""A run on cloze questions, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.cloze import words
from examples.cloze.reading import Cloze
from examples.data.rows import RowBatches
from keras_attention.export.runs import Run, read_run

BATCH_SIZE = 32
SHAPES = 4


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model and its words.

    Attributes:
        run: The `Run`.
        tokenizer: The tokenizer of texts and candidates.
        max_words: Words of a document that are read.
    """

    run: Run
    tokenizer: words.PointingTokenizer
    max_words: int

    @property
    def model(self) -> keras.Model:
        """The model, from document, query and candidates to probabilities and weights."""
        return self.run.model

    def answers(self, questions: list[Cloze]) -> list[dict[str, np.ndarray]]:
        """Returns for each question `probabilities` of its candidates and the `weights`."""
        groups, places = words.encoded(
            questions, self.tokenizer, self.max_words, SHAPES, BATCH_SIZE
        )
        found = [None] * len(questions)
        for group, rows in zip(groups, places, strict=True):
            batches = RowBatches([group], BATCH_SIZE, is_training=False)
            outputs = [self.model.predict_on_batch(inputs) for inputs, *_ in batches.epoch(0)]
            joined = {name: np.concatenate([o[name] for o in outputs]) for name in outputs[0]}
            for line, place in enumerate(rows):
                found[place] = {name: array[line] for name, array in joined.items()}
        return found


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model and words loaded.

    Raises:
        ValueError: If it does not say how many words it reads.
    """
    run = read_run(directory)
    limit = run.settings.get("max_words")
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(
            f"{directory}/run.json is expected to hold the words of a document that are read, a "
            f"positive int. Received: max_words={limit!r}"
        )
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return Opened(run, words.load(directory), limit)


def said(question: Cloze, answer: dict) -> str:
    """Returns the candidate of the largest probability."""
    return question.candidates[int(answer["probabilities"][: len(question.candidates)].argmax())]
