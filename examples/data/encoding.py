"""A corpus as numbers: encoded once, by the tokenizers that are exported with the model."""

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from examples.data.parallel import Corpus
from examples.data.report import BadLine, DataError, Report
from keras_attention.export.tokenizers import CopiedWords

END_ID = 3
CHUNK = 1024
CHUNK_OF_LONG = 64  # texts that may be long are padded to the longest of as many


@dataclasses.dataclass
class Ragged:
    """Rows of different lengths in one flat array.

    Attributes:
        values: int32 array, all rows end to end.
        starts: int64 array of `rows + 1` offsets; row i is `values[starts[i]:starts[i + 1]]`.
    """

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_rows(cls, rows: Iterable[np.ndarray]) -> "Ragged":
        """Joins arrays of ids end to end."""
        rows = [np.asarray(row, np.int32) for row in rows]
        lengths = np.array([len(row) for row in rows], np.int64)
        values = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, int64."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.starts[row] : self.starts[row + 1]]


@dataclasses.dataclass
class EncodedPairs:
    """Pairs as ids, each side closed by the end id.

    Attributes:
        source: `Ragged` of source tokens and the end id.
        target: `Ragged` of target tokens and the end id.
        index: int64 array, for each row the place of its pair in what was encoded.
        report: The `Report` of pairs left out after tokenization.
    """

    source: Ragged
    target: Ragged
    index: np.ndarray
    report: Report

    def __len__(self) -> int:
        return len(self.index)


def encode_pairs(
    pairs: Corpus | Iterable[tuple[str, str]],
    source_tokenizer,
    target_tokenizer,
    *,
    max_source_length: int | None = None,
    max_target_length: int | None = None,
    num_copied_words: int = 0,
    chunk: int = 4096,
) -> EncodedPairs:
    """Encodes pairs and leaves out, counted and reported, those that are too long.

    Args:
        pairs: A `Corpus`, whose line numbers the report then names, or `(source, target)`
            texts, whose places are counted from 1.
        source_tokenizer: Tokenizer with `encode(texts) -> ids, lengths`.
        target_tokenizer: Likewise.
        max_source_length: Most source tokens of a pair, EOS token included; None for any.
        max_target_length: Most target tokens of a pair, EOS token included; None for any.
        num_copied_words: How many unknown words of a source have ids of their own; both tokenizers
            are then the same.
        chunk: How many texts to encode at a time.

    Raises:
        DataError: If no pair is left.
    """
    name = pairs.name if isinstance(pairs, Corpus) else "pair"
    lines = iter(pairs.lines) if isinstance(pairs, Corpus) else itertools.count(1)
    limits = (max_source_length, max_target_length)
    report, kept, index = Report(), ([], []), []
    copied = CopiedWords(source_tokenizer, num_copied_words) if num_copied_words else None
    rows = _encode_rows(pairs, (source_tokenizer, target_tokenizer), chunk, copied)
    for place, (ids, line) in enumerate(zip(rows, lines, strict=False)):
        problem = _problem(ids, limits)
        if problem:
            report.add(BadLine(name, line, *problem))
            continue
        index.append(place)
        for side, row in zip(kept, ids, strict=True):
            side.append(np.append(row, np.int32(END_ID)))
    report.used = len(index)
    if not index:
        raise DataError(f"No pair is left after tokenization. {report.summary()}.")
    source, target = (Ragged.from_rows(side) for side in kept)
    return EncodedPairs(source, target, np.array(index, np.int64), report)


def count_tokens(tokenizer, texts: Iterable[str]) -> np.ndarray:
    """Returns how many tokens each text has, its EOS token not counted, int64.

    Args:
        tokenizer: Tokenizer with `encode(texts) -> ids, lengths`.
        texts: The texts, of any length.
    """
    texts, counts = iter(texts), [np.zeros(0, np.int64)]
    while chunk := list(itertools.islice(texts, CHUNK_OF_LONG)):
        counts.append(np.asarray(tokenizer.encode(chunk)[1], np.int64))
    return np.concatenate(counts)


def encode_rows(tokenizer, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
    """Returns the ids of each text, without padding.

    Args:
        tokenizer: Tokenizer with `encode(texts, limit) -> ids, lengths`.
        texts: The texts.
        limit: Tokens that are kept of a text; None for all.
    """
    rows = []
    for start in range(0, len(texts), CHUNK):
        ids, lengths = tokenizer.encode(texts[start : start + CHUNK], limit)
        rows += [row[:n] for row, n in zip(ids.numpy(), lengths.numpy(), strict=True)]
    return rows


def pad_rows(rows: list[np.ndarray]) -> np.ndarray:
    """Returns arrays of ids as one int32 array, padded with 0 to the largest sizes, at least 1.

    Example:

    >>> pad_rows([np.array([4, 5]), np.array([6])]).tolist()
    [[4, 5], [6, 0]]
    """
    padded = np.zeros(
        (len(rows), *np.max([row.shape for row in rows], axis=0, initial=1)), np.int32
    )
    for line, row in zip(padded, rows, strict=True):
        line[tuple(map(slice, row.shape))] = row
    return padded


def _encode_rows(pairs, tokenizers, chunk, copied):
    """Yields (source ids, target ids), without EOS tokens."""
    pairs = iter(pairs)
    while texts := list(itertools.islice(pairs, chunk)):
        columns = [tf.constant(column, tf.string) for column in zip(*texts, strict=True)]
        (source, source_lengths), (target, target_lengths) = (
            one.encode(column) for one, column in zip(tokenizers, columns, strict=True)
        )
        if copied is not None:
            source = copied.number(source, columns[0])
            target = copied.number_targets(target, columns[1], columns[0])
        sides = _split_rows(source, source_lengths), _split_rows(target, target_lengths)
        yield from zip(*sides, strict=True)


def _split_rows(ids, lengths):
    ids, lengths = np.asarray(ids), np.asarray(lengths)
    return [row[:length] for row, length in zip(ids, lengths, strict=True)]


def _problem(ids, limits):
    """Returns (reason, detail) if a pair cannot be used, else None."""
    for side, row, limit in zip(("source", "target"), ids, limits, strict=True):
        if not len(row):
            return "empty after tokenization", side
        if limit is not None and len(row) + 1 > limit:
            detail = f"{len(row) + 1:,} {side} tokens with the EOS token, the limit is {limit:,}"
            return "too long after tokenization", detail
    return None
