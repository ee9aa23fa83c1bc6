"""Documents as ids `(rows, sentences, words)` of a few shapes.

A document of more sentences, and a sentence of more words, than the limits is cut at its end;
`Length` counts what that leaves out.
"""

import dataclasses

import numpy as np

from examples.data.buckets import split_into_buckets
from examples.data.classification import Document
from examples.data.encoding import encode_rows, pad_rows

NO_CLASS = -1  # the number of a label that is no class


@dataclasses.dataclass(frozen=True)
class Length:
    """How much of documents is read.

    Attributes:
        documents: How many documents there are.
        words: How many words they have together.
        cut_documents: How many documents have lost a word.
        cut_words: How many words were cut off.
    """

    documents: int
    words: int
    cut_documents: int
    cut_words: int

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents of {self.words:,} words, "
            f"{100 * self.cut_words / max(self.words, 1):.1f} % of them cut off, from "
            f"{self.cut_documents:,} documents"
        )


def encode_documents(
    documents: list[Document],
    tokenizer,
    classes: list[str],
    max_sentences: int,
    max_words: int,
    num_buckets: int,
    batch_size: int,
):
    """Returns groups of `(inputs, labels, weights)` of few shapes, and how much is read.

    Args:
        documents: What is encoded; one whose label is no class has weight 0.
        tokenizer: Tokenizer with `encode(texts) -> ids, lengths`.
        classes: Names of the classes, the first gets the number 0.
        max_sentences: Sentences that are kept of a document.
        max_words: Words that are kept of a sentence.
        num_buckets: Groups at most; documents go together by their number of sentences.
        batch_size: Documents of a batch.

    Returns:
        A list of `({"sentences": (rows, sentences, words)}, {"logits": (rows,)}, (rows,))`, ids
        padded with 0, numbers of classes and weights; a list of arrays, the places of their
        documents; and the `Length` of all.

    Example:

    >>> from keras_attention.export.tokenizers import WordTokenizer
    >>> film, words = Document("a", "pos", ("good film", "see it now")), ["good", "film"]
    >>> groups, _, length = encode_documents([film], WordTokenizer(words), ["pos"], 9, 2, 1, 1)
    >>> groups[0][0]["sentences"].tolist(), length.words, length.cut_words
    ([[[4, 5], [1, 1]]], 5, 1)
    """
    rows = iter(encode_rows(tokenizer, [text for each in documents for text in each.sentences]))
    ids, words, lost = [], 0, []
    for document in documents:
        whole = [next(rows) for _ in document.sentences]
        kept = [row[:max_words] for row in whole[:max_sentences]]
        ids.append(pad_rows(kept))
        words += sum(map(len, whole))
        lost.append(sum(map(len, whole)) - sum(map(len, kept)))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = np.array([numbers.get(each.label, NO_CLASS) for each in documents], np.int32)
    sentences = np.array(list(map(len, ids)))
    buckets = split_into_buckets(sentences, 0 * sentences, batch_size, num_buckets)
    groups = [
        (
            {"sentences": pad_rows([ids[place] for place in bucket])},
            {"logits": np.maximum(labels[bucket], 0)},
            (labels[bucket] != NO_CLASS).astype(np.float32),
        )
        for bucket in buckets
    ]
    return groups, buckets, Length(len(documents), words, np.count_nonzero(lost), sum(lost))
