"""Documents as ids `(rows, sentences, words)`, in batches of a few fixed shapes.

A document of more sentences, and a sentence of more words, than the limits is cut at its end;
`Encoded` counts what that leaves out.
"""

import dataclasses
import hashlib

import numpy as np
import tensorflow as tf

from examples.classification.documents import Document
from examples.data.buckets import split_into_buckets
from examples.data.order import frozen_draw
from keras_attention import validation

NO_CLASS = -1  # the label of a document whose label is no class
CHUNK = 4096


@dataclasses.dataclass
class Encoded:
    """Documents as ids.

    Attributes:
        ids: For each document an int32 array `(sentences, words)`, padded with 0.
        labels: int32 array, the number of each document's class, -1 if it has none.
        words: How many words all documents have together.
        kept: How many of them are within the limits.
        cut: How many documents have lost a word.
    """

    ids: list[np.ndarray]
    labels: np.ndarray
    words: int
    kept: int
    cut: int

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        share = 100 * (1 - self.kept / max(self.words, 1))
        return (
            f"{len(self):,} documents of {self.words:,} words, {share:.1f} % of them cut off, "
            f"from {self.cut:,} documents"
        )


def encode_documents(
    documents: list[Document],
    tokenizer,
    classes: list[str],
    max_sentences: int,
    max_words: int,
) -> Encoded:
    """Returns documents as ids, each with at least one sentence and one word.

    Args:
        documents: What is encoded; a label that is no class becomes -1.
        tokenizer: Tokenizer with `encode(texts) -> ids, lengths`.
        classes: Names of the classes, the first gets the number 0.
        max_sentences: Positive int, sentences that are kept of a document.
        max_words: Positive int, words that are kept of a sentence.

    Example:

    >>> from keras_attention.export.tokenizers import WordTokenizer
    >>> film = Document("a", "pos", ("good film", "see it now"))
    >>> encoded = encode_documents([film], WordTokenizer(["good", "film"]), ["pos"], 9, 2)
    >>> encoded.ids[0].tolist(), encoded.words, encoded.kept
    ([[4, 5], [1, 1]], 5, 4)
    """
    rows, lengths = _sentence_rows(documents, tokenizer, max_words)
    ids, words, kept, cut, start = [], 0, 0, 0, 0
    for document in documents:
        end = start + len(document.sentences)
        within = rows[start : min(end, start + max_sentences)]
        array = np.zeros((len(within), max(1, *(len(row) for row in within), 1)), np.int32)
        for line, row in zip(array, within, strict=True):
            line[: len(row)] = row
        there, here = int(lengths[start:end].sum()), sum(map(len, within))
        words, kept, cut, start = words + there, kept + here, cut + (here < there), end
        ids.append(array)
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [numbers.get(document.label, NO_CLASS) for document in documents]
    return Encoded(ids, np.array(labels, np.int32), words, kept, cut)


def _sentence_rows(documents, tokenizer, max_words):
    """Returns the ids of all sentences, cut, and how many words each has uncut."""
    texts = [sentence for document in documents for sentence in document.sentences]
    rows, lengths = [], []
    for start in range(0, len(texts), CHUNK):
        ids, counts = (part.numpy() for part in tokenizer.encode(texts[start : start + CHUNK]))
        rows += [row[: min(n, max_words)] for row, n in zip(ids, counts, strict=True)]
        lengths.append(counts)
    return rows, np.concatenate(lengths)


class DocumentBatches:
    """Documents as padded batches of at most `max_shapes` shapes.

    Every batch of a shape has the same number of rows; what is missing in the last one is
    filled with empty rows of weight 0. The order in epoch `e` is a function of `(seed, e)`
    alone, so that a run resumes at any (epoch, batch).

    Args:
        encoded: An `Encoded`.
        batch_size: Positive int, documents in a batch.
        max_shapes: Positive int, most shapes; documents go together by their number of
            sentences.
        seed: Int of at least 0, the seed of the order.

    Raises:
        ValueError: If an argument lies outside its range, or there is no document.

    Example:

    >>> ids = [np.ones((2, 3), np.int32), np.ones((5, 4), np.int32)]
    >>> batches = DocumentBatches(Encoded(ids, np.array([1, 2]), 26, 26, 0), batch_size=1)
    >>> batches.shapes()
    [(1, 2, 3), (1, 5, 4)]
    """

    def __init__(
        self, encoded: Encoded, *, batch_size: int = 16, max_shapes: int = 5, seed: int = 0
    ):
        owner = "DocumentBatches"
        self.encoded = encoded
        self.batch_size = validation.check_positive_int(owner, "batch_size", batch_size)
        validation.check_positive_int(owner, "max_shapes", max_shapes)
        self.seed = validation.check_int_at_least(owner, "seed", seed, 0)
        if not len(encoded):
            raise ValueError(f"{owner} expects at least one document. Received: none")
        sentences = np.array([len(ids) for ids in encoded.ids])
        self._buckets = split_into_buckets(
            sentences, 0 * sentences, lambda long, _: self.batch_size + 0 * long, max_shapes
        )
        self._shapes = [
            (
                self.batch_size,
                int(sentences[bucket].max()),
                max(encoded.ids[row].shape[1] for row in bucket),
            )
            for bucket in self._buckets
        ]

    def shapes(self) -> list[tuple[int, int, int]]:
        """Returns the `(rows, sentences, words)` shapes that an epoch takes."""
        return list(self._shapes)

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return len(self._plan(self._buckets))

    def epoch(self, epoch: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch in its order, from batch `start` on.

        Returns:
            Dataset of `({"sentences": (rows, sentences, words)}, {"logits": labels (rows,)},
            weights (rows,))`, int32 and float32; padding is 0.
        """
        validation.check_int_at_least("DocumentBatches", "epoch", epoch, 0)
        validation.check_int_at_least("DocumentBatches", "start", start, 0)
        random = frozen_draw(self.seed, epoch)
        plan = self._plan([random.permutation(bucket) for bucket in self._buckets])
        order = random.permutation(len(plan))[start:]

        def draw(place):
            return self._assemble(*plan[place])

        def as_tensors(place):
            types = (tf.int32, tf.int32, tf.float32)
            ids, labels, weights = tf.numpy_function(draw, [place], types)
            ids.set_shape((self.batch_size, None, None))
            for array in (labels, weights):
                array.set_shape((self.batch_size,))
            return {"sentences": ids}, {"logits": labels}, weights

        with tf.device("CPU"):  # the pipeline runs there, whatever the model runs on
            dataset = tf.data.Dataset.from_tensor_slices(order.astype(np.int64))
            return dataset.map(as_tensors).prefetch(tf.data.AUTOTUNE)

    def in_order(self):
        """Yields `(ids, labels, weights, rows)` of every document once, bucket by bucket.

        `rows` are the documents' numbers, fewer than the batch has rows in the last one.
        """
        for shape, rows in self._plan(self._buckets):
            yield *self._assemble(shape, rows), rows

    def digest(self) -> str:
        """Returns the SHA-256 of all ids and labels."""
        sha = hashlib.sha256(self.encoded.labels.tobytes())
        for ids in self.encoded.ids:
            sha.update(np.array(ids.shape, np.int64).tobytes() + ids.tobytes())
        return sha.hexdigest()

    def __str__(self) -> str:
        positions = sum(np.prod(self._shapes[shape]) for shape, _ in self._plan(self._buckets))
        return (
            f"{self.encoded}; {self.batches_per_epoch():,} batches of {len(self._shapes)} shapes, "
            f"{100 * (1 - self.encoded.kept / positions):.1f} % padding"
        )

    def _plan(self, buckets):
        """Returns (number of the shape, rows of the batch), one bucket after another."""
        return [
            (shape, bucket[start : start + self.batch_size])
            for shape, bucket in enumerate(buckets)
            for start in range(0, len(bucket), self.batch_size)
        ]

    def _assemble(self, shape, rows):
        ids = np.zeros(self._shapes[shape], np.int32)
        labels, weights = (np.zeros(self.batch_size, dtype) for dtype in (np.int32, np.float32))
        labels[: len(rows)] = np.maximum(self.encoded.labels[rows], 0)
        weights[: len(rows)] = self.encoded.labels[rows] != NO_CLASS
        for line, row in zip(ids, rows, strict=False):
            document = self.encoded.ids[row]
            line[: document.shape[0], : document.shape[1]] = document
        return ids, labels, weights
