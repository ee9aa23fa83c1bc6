"""Word alignments as links: Pharaoh files, arrays for a loss, and links from attention weights.

A link is a pair `(source, target)` of word positions, counted from 0. The alignment of a sentence
pair is a set of links. A line of a Pharaoh file is the alignment of one sentence pair: `0-0 1-2`.
A possible link is `1p2` or `1?2`, see `keras_attention.metrics.AlignmentErrorRate`.

Positions count words, without BOS and EOS. They are also positions of attention weights where
words are the tokens: column i of the weights belongs to source word i, and row t to target word t,
which is the label of that row; the decoder read BOS or word t - 1 there. The EOS token stands
after the last word on both sides. It has no link: attention to it is none.
"""

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from keras_attention import validation
from keras_attention._utils.tensor_types import Links, TensorLike

_LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)")


def read_links(
    path: str | os.PathLike[str],
    source_lengths: Sequence[int | None] | None = None,
    target_lengths: Sequence[int | None] | None = None,
) -> tuple[list[set[tuple[int, int]]], list[set[tuple[int, int]]]]:
    """Returns the links of each line of a Pharaoh file: the sure ones, and the possible ones.

    Args:
        path: The file, plain or gzip. An empty line is a sentence pair without a link.
        source_lengths: Optional number of words of each source, against which the file is checked;
            None for a source whose number is not known.
        target_lengths: The same of each target.

    Returns:
        Two lists with a set for each line. Possible links include the sure ones.

    Raises:
        ValueError: If a link is malformed or lies outside its sentence, the number of lines is
            not that of the sentences, or a gzip file is damaged. The message has the file, the line
            and the link.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "links.txt")
    >>> _ = path.write_text("0-0 2-1\\n\\n1p0\\n")
    >>> sure, possible = read_links(path, source_lengths=[3, 1, 2], target_lengths=[2, 1, 1])
    >>> [sorted(links) for links in sure], sorted(possible[2])
    ([[(0, 0), (2, 1)], [], []], [(1, 0)])
    """
    name = os.fspath(path)
    lines = _read_lines(name)
    lengths = {"source": source_lengths, "target": target_lengths}
    for side, counts in lengths.items():
        if counts is not None and len(counts) != len(lines):
            raise ValueError(
                f"{name} has {len(lines):,} lines, and there are {len(counts):,} {side} sentences. "
                "Line n must be the alignment of sentence n, an empty line where nothing is linked."
            )
    sure, possible = [], []
    for number, line in enumerate(lines):
        try:
            limits = [None if counts is None else counts[number] for counts in lengths.values()]
            found = list(_parse_line(line, limits))
        except ValueError as error:
            raise ValueError(f"{name}:{number + 1}: {error}") from None
        possible.append({link for link, _ in found})
        sure.append({link for link, is_sure in found if is_sure})
    return sure, possible


def write_links(
    path: str | os.PathLike[str], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> None:
    """Writes a Pharaoh file, a line for each sentence pair.

    Args:
        path: The file, compressed if its name ends in .gz.
        sure: The links of each sentence pair.
        possible: Optional possible links of each. Those that are not sure are written as `1p2`.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "links.txt")
    >>> write_links(path, [{(0, 1), (1, 0)}, set()])
    >>> path.read_text()
    '0-1 1-0\\n\\n'
    """
    pairs = zip(sure, [()] * len(sure) if possible is None else possible, strict=True)
    content = "".join(f"{format_links(*links)}\n" for links in pairs).encode()
    if os.fspath(path).endswith(".gz"):
        content = gzip.compress(content)
    with open(path, "wb") as file:
        file.write(content)


def format_links(sure: Links, possible: Links = ()) -> str:
    """Returns the line of a Pharaoh file, in the order of the source.

    Example:

    >>> format_links({(2, 1), (0, 0)}, possible={(0, 0), (1, 1)})
    '0-0 1p1 2-1'
    """
    marks = {link: "p" for link in map(tuple, possible)} | {link: "-" for link in map(tuple, sure)}
    return " ".join(f"{link[0]}{marks[link]}{link[1]}" for link in sorted(marks))


def links_to_array(
    links: Sequence[Links], target_length: int | None = None, source_length: int | None = None
) -> np.ndarray:
    """Returns links as labels of attention weights: 1 for a link, 0 elsewhere and for padding.

    `GuidedAlignmentLoss` takes it as `y_true`.

    Args:
        links: The links of each sentence pair.
        target_length: Rows: the length of the labels, EOS and padding included. By default as many
            as the links need.
        source_length: Columns: the length of the source ids, likewise.

    Returns:
        Float32 array `(sentences, target_length, source_length)`.

    Raises:
        ValueError: If a link has no place in such an array.

    Example:

    >>> links_to_array([{(0, 0), (2, 1)}, {(1, 0)}]).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    places = [(n, target, source) for n, each in enumerate(links) for source, target in each]
    for sentence, target, source in places:
        if min(source, target) < 0:
            raise ValueError(
                "links_to_array expects positions counted from 0. Received: "
                f"({source}, {target}) in links[{sentence}]"
            )
    index = np.array(places, np.int64).reshape(-1, 3)
    needed = index.max(axis=0, initial=-1) + 1
    sizes = {"target_length": target_length, "source_length": source_length}
    shape = [len(links)]
    for axis, (name, size) in enumerate(sizes.items(), 1):
        size = int(needed[axis]) if size is None else size
        minimum = int(needed[axis])
        hint = "The links have such positions."
        shape.append(validation.check_int_at_least("links_to_array", name, size, minimum, hint))
    array = np.zeros(shape, np.float32)
    array[tuple(index.T)] = 1
    return array


def find_links(
    weights: TensorLike | Sequence[TensorLike],
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    threshold: float | None = None,
) -> list[set[tuple[int, int]]]:
    """Returns the links of attention weights: of each target word to where it attends most.

    A target word that attends most to EOS, or nowhere, has no link.

    Args:
        weights: Float array `(batch, target, source)`, or an array `(target, source)` for each
            sentence pair, such as `Translation.alignment`. Rows and columns may be padded.
        source_lengths: Number of words of each source, without EOS.
        target_lengths: Number of words of each target, without EOS.
        threshold: None for the largest weight of each target word; or a number in (0, 1], for all
            source words with at least this weight.

    Raises:
        ValueError: If `threshold` lies outside its range, or the weights have fewer rows or columns
            than there are words.

    Example: the second target word attends most to EOS.

    >>> weights = np.array([[[0.6, 0.4, 0.0], [0.3, 0.2, 0.5], [0.0, 0.0, 1.0]]])
    >>> find_links(weights, source_lengths=[2], target_lengths=[2])
    [{(0, 0)}]
    >>> sorted(find_links(weights, [2], [2], threshold=0.3)[0])
    [(0, 0), (0, 1), (1, 0)]
    """
    if threshold is not None:
        validation.check_number_in_range(
            "find_links",
            "threshold",
            threshold,
            0,
            1,
            exclude_low=True,
            hint="A weight is at most 1.",
        )
    found = []
    for given, num_sources, num_targets in zip(
        weights, source_lengths, target_lengths, strict=True
    ):
        rows = np.asarray(given, np.float32)
        if rows.ndim != 2 or rows.shape[0] < num_targets or rows.shape[1] < num_sources:
            raise ValueError(
                "find_links expects `weights` (target, source) for each sentence pair, with a row "
                "for each target word and a column for each source word. Received: "
                f"weights[{len(found)}].shape={rows.shape}, source_lengths[{len(found)}]="
                f"{num_sources}, target_lengths[{len(found)}]={num_targets}"
            )
        rows = rows[:num_targets, : num_sources + 1]  # EOS stands after the words
        if threshold is None:
            best = rows.argmax(axis=-1) if rows.size else np.zeros(len(rows), np.int64)
            is_link = (np.arange(rows.shape[1]) == best[:, None]) & (rows > 0)
        else:
            is_link = rows >= threshold
        targets, sources = np.nonzero(is_link[:, :num_sources])
        found.append(set(zip(sources.tolist(), targets.tolist(), strict=True)))
    return found


def _read_lines(name: str) -> list[str]:
    with open(name, "rb") as file:
        content = file.read()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{name} is damaged ({error}). Compress or copy it again.") from None
    return list(io.StringIO(content.decode("utf-8-sig", errors="replace"), newline=None))


def _parse_line(line: str, limits: Sequence[int | None]) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yields each link of a line, and whether it is sure."""
    for token in line.split():
        match = _LINK.fullmatch(token)
        if match is None:
            raise ValueError(
                "expected links such as 0-0, or 1p2 and 1?2 for possible ones: positions counted "
                f"from 0, the source first. Received: {token!r}"
            )
        link = int(match[1]), int(match[3])
        for side, position, limit in zip(("source", "target"), link, limits, strict=True):
            if limit is not None and position >= limit:
                raise ValueError(
                    f"the link {token} points outside its sentence: the {side} has {limit} words, "
                    "counted from 0. EOS is no word."
                )
        yield link, match[2] == "-"
