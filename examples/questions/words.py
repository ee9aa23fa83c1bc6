"""Stories as ids: the same words in training, evaluation and the exported graph."""

import pathlib

import numpy as np
import tensorflow as tf

from examples.questions.stories import Question
from keras_attention.export import tokenizers
from keras_attention.export.tokenizers import WordTokenizer

FOLDER = "words.tokenizer"
MARKS = r"[.?!]+(\s|$)"  # at the end of a word


class SentenceTokenizer(WordTokenizer):
    """Lower-cased words without the marks that end sentences.

    `Where is Mary?` is read as `where is mary`, so that a word is the same word wherever it stands.
    A trained one is stored as the word tokenizer that it is beside that.

    Example:

    >>> SentenceTokenizer(["where", "is", "mary"]).encode(["Where is Mary?"])[0].numpy().tolist()
    [[4, 5, 6]]
    """

    def __init__(self, vocabulary):
        super().__init__(vocabulary, lowercase=True)

    def normalize(self, texts):
        unmarked = tf.strings.regex_replace(super().normalize(texts), MARKS, r"\1")
        return super().normalize(unmarked)


def learn(questions: list[Question]) -> SentenceTokenizer:
    """Returns a tokenizer of all words of stories, questions and answers."""
    texts = {text for q in questions for text in (*q.sentences, q.question, q.answer)}
    plain = SentenceTokenizer(["a"]).normalize(tf.constant(sorted(texts))).numpy()
    words = tokenizers.train("words", [text.decode() for text in plain], lowercase=True)
    return SentenceTokenizer(words.vocabulary)


def load(directory) -> SentenceTokenizer:
    """Returns the tokenizer of a run.

    Raises:
        FileNotFoundError: If it is missing.
        ValueError: If it is damaged.
    """
    return SentenceTokenizer(tokenizers.load(pathlib.Path(directory) / FOLDER).vocabulary)


def longest(questions: list[Question], tokenizer: WordTokenizer) -> int:
    """Returns the words of the longest sentence or question."""
    texts = sorted({text for q in questions for text in (*q.sentences, q.question)})
    return int(tokenizer.encode(texts)[1].numpy().max())


def encoded(questions: list[Question], tokenizer: WordTokenizer, memories: int, words: int):
    """Returns `(inputs, labels)` of questions as arrays.

    Args:
        questions: The questions.
        tokenizer: What `learn` gave.
        memories: The most recent sentences that are kept of a story.
        words: The first words that are kept of a sentence or question.

    Returns:
        `{"story": (rows, longest story, words), "question": (rows, words)}` and
        `{"answer": (rows,)}`, int32. An answer that is no word of the vocabulary has id 1.
    """
    texts = sorted({t for q in questions for t in (*q.sentences, q.question, q.answer)})
    place = {text: number for number, text in enumerate(texts)}
    ids = tokenizer.encode(texts, words)[0].numpy()
    ids = np.pad(ids, [(0, 0), (0, words - ids.shape[1])])
    height = min(memories, max(len(q.sentences) for q in questions))
    story = np.zeros((len(questions), height, words), np.int32)
    for row, question in zip(story, questions, strict=True):
        kept = [place[text] for text in question.sentences[-height:]]
        row[: len(kept)] = ids[kept]
    asked = ids[[place[q.question] for q in questions]]
    answers = ids[[place[q.answer] for q in questions], 0]
    return {"story": story, "question": asked}, {"answer": answers}
