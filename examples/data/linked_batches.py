"""Batches of pairs whose words are linked, for guided alignment."""

import hashlib
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from examples.data.batches import Batches
from examples.data.encoding import EncodedPairs, Ragged, count_tokens
from examples.data.pair_files import PairFiles
from examples.data.parallel import Corpus
from keras_attention.data import read_links
from keras_attention.export.tokenizers import WordTokenizer

Links = set[tuple[int, int]]


def read_pair_links(
    path: pathlib.Path, files: PairFiles, corpus: Corpus
) -> dict[tuple[str, str], Links]:
    """Returns the links of each pair of texts, sure and possible ones.

    A pair that occurs several times has the links of its last line.

    Args:
        path: A Pharaoh file with a line for each line of the files.
        files: The files.
        corpus: The pairs that were read of them.

    Raises:
        ValueError: If a line is malformed, links a word that is not there, or is missing.
    """
    count = files.count_lines()
    words = WordTokenizer(["a"])  # counts words as every tokenizer of words does
    lengths = []
    for texts in zip(*corpus.pairs, strict=True):
        known = dict(zip(corpus.lines, count_tokens(words, texts).tolist(), strict=True))
        lengths.append([known.get(number) for number in range(1, count + 1)])
    _, links = read_links(path, *lengths)
    return {pair: links[line - 1] for pair, line in zip(corpus.pairs, corpus.lines, strict=True)}


class LinkedBatches(Batches):
    """Batches with one more input, `alignment`: the links as labels of attention weights.

    Args:
        encoded: `EncodedPairs`, whose tokens are words.
        links: The links of each pair that was encoded, before any was left out.
        **options: As those of `Batches`.

    Example:

    >>> from examples.data.report import Report
    >>> ids = Ragged.from_rows([[5, 8, 3], [6, 3]])
    >>> encoded = EncodedPairs(ids, ids, np.arange(2), Report())
    >>> batches = LinkedBatches(encoded, [{(1, 0)}, set()], batch_size=2, max_shapes=1)
    >>> inputs, labels, index = next(iter(batches.evaluation()))
    >>> inputs["alignment"][0].numpy().tolist()  # (target, source), EOS last
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, encoded: EncodedPairs, links: Sequence[Links], **options) -> None:
        super().__init__(encoded, **options)
        rows = [np.array(sorted(links[place])).reshape(-1) for place in encoded.index]
        self._links = Ragged.from_rows([*rows, []])  # the last one for empty rows
        with tf.device("CPU"):
            self._flat_links = tf.RaggedTensor.from_row_splits(
                self._links.values.reshape(-1, 2), self._links.starts // 2
            )

    def digest(self) -> str:
        links = [self._links.starts, self._links.values]
        content = b"".join(array.astype("<i8").tobytes() for array in links)
        return hashlib.sha256(super().digest().encode() + content).hexdigest()

    def _assemble(self, number, rows):
        inputs, labels, index = super()._assemble(number, rows)
        source_length = tf.shape(inputs["source"])[1]
        rows = rows[: tf.shape(index)[0]]
        empty_row = tf.cast(len(self.encoded), rows.dtype)
        links = tf.gather(self._flat_links, tf.where(rows < 0, empty_row, rows))
        numbers = tf.cast(links.value_rowids(), tf.int32)
        places = tf.stack([numbers, links.flat_values[:, 1], links.flat_values[:, 0]], axis=1)
        shape = [*tf.unstack(tf.shape(labels)), source_length]
        ones = tf.ones_like(numbers, tf.float32)
        return {**inputs, "alignment": tf.scatter_nd(places, ones, shape)}, labels, index
