"""Lines of text as ids: the same in training, evaluation and the exported graph.

A line of more tokens than the limit is cut there. No end follows it: it did not end.
"""

import dataclasses
import os

import numpy as np

from examples.data.buckets import split_into_buckets
from examples.data.encoding import END_ID, count_tokens
from examples.data.lines import decode_line, lines_of
from examples.data.report import DataError
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import BOS_ID

FOLDER = "text.tokenizer"
CHUNK = 4096


@dataclasses.dataclass(frozen=True)
class Length:
    """How much of texts is read.

    Attributes:
        texts: How many texts there are.
        tokens: How many tokens they have together, their ends not counted.
        cut_texts: How many texts were cut off.
        cut_tokens: How many tokens were.
    """

    texts: int
    tokens: int
    cut_texts: int
    cut_tokens: int

    def __str__(self) -> str:
        return (
            f"{self.texts:,} lines of {self.tokens:,} tokens, "
            f"{100 * self.cut_tokens / max(self.tokens, 1):.1f} % of them cut off, from "
            f"{self.cut_texts:,} lines"
        )


def read_texts(path: str, limit: int | None = None) -> list[str]:
    """Returns the lines of a file, plain or gzip, that hold something.

    Args:
        path: The file.
        limit: How many are read, the first ones; None for all.

    Raises:
        DataError: If the file cannot be read, a line is not UTF-8, or all are blank.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "texts")
    >>> _ = path.write_text("a dog runs .\\n\\n it sleeps .\\n")
    >>> read_texts(path)
    ['a dog runs .', 'it sleeps .']
    """
    name, found = os.fspath(path), []
    for number, line in enumerate(lines_of(path), 1):
        if len(found) == limit:
            break
        text = decode_line(line, name, number).strip()
        if text:
            found.append(text)
    if not found:
        raise DataError(f"{name} holds no text. Give a file with a sentence on each line.")
    return found


def encode_texts(
    texts: list[str], tokenizer: Tokenizer, max_tokens: int, max_shapes: int, batch_size: int
):
    """Returns groups of `(inputs, labels)` of few shapes, which texts each holds, and how long.

    Args:
        texts: The texts.
        tokenizer: Their tokenizer.
        max_tokens: Tokens of a text that are read, its EOS token not counted.
        max_shapes: Most groups.
        batch_size: Texts of a batch.

    Returns:
        A list of `({"ids": (rows, time)}, {"logits": (rows, time)})`, int32 and padded with 0:
        the start id and the tokens, and the tokens and the end id, without which a text that is
        cut off goes; a list of arrays, the places of their texts; and the `Length` of all.
    """
    rows, long = [], []
    for start in range(0, len(texts), CHUNK):
        ids, lengths = tokenizer.encode(texts[start : start + CHUNK], max_tokens + 1)
        for row, n in zip(ids.numpy(), lengths.numpy(), strict=True):
            if n > max_tokens:
                long.append(texts[len(rows)])
            rows.append(row[:max_tokens] if n > max_tokens else np.append(row[:n], END_ID))
    lengths = np.array([len(row) for row in rows])
    buckets = split_into_buckets(lengths, lengths, batch_size, max_shapes)
    read = int(lengths.sum()) - (len(texts) - len(long))
    cut = int(count_tokens(tokenizer, long).sum()) - max_tokens * len(long)
    length = Length(len(texts), read + cut, len(long), cut)
    return [_group(rows, bucket) for bucket in buckets], buckets, length


def _group(rows, places):
    width = max(len(rows[place]) for place in places)
    ids, target = (np.zeros((len(places), width), np.int32) for _ in range(2))
    for line, place in enumerate(places):
        row = rows[place]
        ids[line, : len(row)] = [BOS_ID, *row[:-1]]
        target[line, : len(row)] = row
    return {"ids": ids}, {"logits": target}
