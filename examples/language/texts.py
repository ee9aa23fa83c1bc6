"""Lines of text as ids: the same in training, evaluation and the exported graph."""

import os

import numpy as np

from examples.data.buckets import split_into_buckets
from examples.data.encoding import END_ID
from examples.data.lines import decoded, lines_of
from examples.data.report import DataError
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.protocol import FIRST_ID

FOLDER = "text.tokenizer"
CHUNK = 4096


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
        text = decoded(line, name, number).strip()
        if text:
            found.append(text)
    if not found:
        raise DataError(f"{name} holds no text. Give a file with a sentence on each line.")
    return found


def encoded(
    texts: list[str], tokenizer: Tokenizer, max_tokens: int, max_shapes: int, batch_size: int
):
    """Returns groups of `(inputs, labels)` of few shapes, and which texts each holds.

    Args:
        texts: The texts.
        tokenizer: Their tokenizer.
        max_tokens: Tokens of a text that are read, its end mark not counted.
        max_shapes: Most groups.
        batch_size: Texts of a batch.

    Returns:
        A list of `({"ids": (rows, time)}, {"target": (rows, time)})`, int32 and padded with 0:
        the start id and the tokens, and the tokens and the end id; and a list of arrays, the
        places of their texts.
    """
    rows = []
    for start in range(0, len(texts), CHUNK):
        ids, lengths = tokenizer.encode(texts[start : start + CHUNK], max_tokens)
        rows += [row[:n] for row, n in zip(ids.numpy(), lengths.numpy(), strict=True)]
    lengths = np.array([len(row) + 1 for row in rows])
    buckets = split_into_buckets(
        lengths, lengths, lambda length, _: batch_size + 0 * length, max_shapes
    )
    return [_group(rows, bucket) for bucket in buckets], buckets


def _group(rows, places):
    width = 1 + max(len(rows[place]) for place in places)
    ids, target = (np.zeros((len(places), width), np.int32) for _ in range(2))
    for line, place in enumerate(places):
        row = rows[place]
        ids[line, : len(row) + 1] = [FIRST_ID, *row]
        target[line, : len(row) + 1] = [*row, END_ID]
    return {"ids": ids}, {"target": target}
