"""Stories as ids: the same words in training, evaluation and the exported graph.

Of a story with more sentences than the memory holds the most recent are read, and of a sentence or
question with more words than the longest that was trained on the first; `Length` counts what that
leaves out.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from examples.data.babi import Question
from examples.data.encoding import count_tokens
from keras_attention.export import tokenizers
from keras_attention.export.tokenizers import WordTokenizer

MARKS = r"[.?!]+(\s|$)"  # at the end of a word


@dataclasses.dataclass(frozen=True)
class Length:
    """How much of questions and their stories is read; a story counts for each of its questions.

    Attributes:
        questions: How many questions there are.
        sentences: How many sentences their stories have together.
        cut_stories: How many stories have lost their oldest sentences.
        cut_sentences: How many sentences those are.
        words: How many words the questions and the sentences that are read have together.
        cut_texts: How many of these were cut off at their end.
        cut_words: How many words were.
    """

    questions: int
    sentences: int
    cut_stories: int
    cut_sentences: int
    words: int
    cut_texts: int
    cut_words: int

    @property
    def is_cut(self) -> bool:
        """Whether anything was cut off."""
        return bool(self.cut_stories or self.cut_texts)

    def __str__(self) -> str:
        old = 100 * self.cut_sentences / max(self.sentences, 1)
        late = 100 * self.cut_words / max(self.words, 1)
        return (
            f"{self.questions:,} questions about {self.sentences:,} sentences, {old:.1f} % of them "
            f"too old to be read, of {self.cut_stories:,} stories; of {self.words:,} words "
            f"{late:.1f} % cut off, from {self.cut_texts:,} sentences and questions"
        )


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


def learn_words(questions: list[Question]) -> SentenceTokenizer:
    """Returns a tokenizer of all words of stories, questions and answers."""
    texts = {text for q in questions for text in (*q.sentences, q.question, q.answer)}
    plain = SentenceTokenizer(["a"]).normalize(tf.constant(sorted(texts))).numpy()
    words = tokenizers.train("words", [text.decode() for text in plain], lowercase=True)
    return SentenceTokenizer(words.vocabulary)


def count_words(questions: list[Question]) -> int:
    """Returns how many words the longest sentence or question has."""
    texts = sorted({text for q in questions for text in (*q.sentences, q.question)})
    return int(SentenceTokenizer(["a"]).encode(texts)[1].numpy().max())


def measure_length(
    questions: list[Question], tokenizer: WordTokenizer, memories: int, words: int
) -> Length:
    """Returns how much `encode_questions` reads of questions; the arguments are its.

    Example:

    >>> told = [Question("1", 0, ("a b c", "b", "c"), "a b ?", "c")]
    >>> print(measure_length(told, SentenceTokenizer(["a", "b", "c"]), memories=2, words=1))
    1 questions about 3 sentences, 33.3 % of them too old to be read, of 1 stories; of 4 words \
25.0 % cut off, from 1 sentences and questions
    """
    sizes = [len(question.sentences) for question in questions]
    old = [max(0, size - memories) for size in sizes]
    read = [text for q in questions for text in (*q.sentences[-memories:], q.question)]
    distinct = sorted(set(read))
    counts = dict(zip(distinct, count_tokens(tokenizer, distinct).tolist(), strict=True))
    late = [max(0, counts[text] - words) for text in read]
    return Length(
        questions=len(questions),
        sentences=sum(sizes),
        cut_stories=sum(count > 0 for count in old),
        cut_sentences=sum(old),
        words=sum(counts[text] for text in read),
        cut_texts=sum(count > 0 for count in late),
        cut_words=sum(late),
    )


def encode_questions(
    questions: list[Question], tokenizer: WordTokenizer, memories: int, words: int
):
    """Returns `(inputs, labels, weights)` of questions as arrays.

    Args:
        questions: The questions.
        tokenizer: What `learn_words` gave.
        memories: The most recent sentences that are kept of a story.
        words: The first words that are kept of a sentence or question.

    Returns:
        `{"story": (rows, longest story, words), "question": (rows, words)}` and
        `{"logits": (rows,)}`, the answers, int32; and weights of 1. An answer that is no word of
        the vocabulary has id 1.
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
    weights = np.ones(len(questions), np.float32)
    return {"story": story, "question": asked}, {"logits": answers}, weights
