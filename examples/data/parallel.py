"""Readers of text pairs: two parallel files, or one file with a pair (or more) a line.

UTF-8, plain or gzip. Lines end with a line feed, with or without a carriage return
before it, and nowhere else: U+2028 and its like belong to the sentence. A line that
cannot be used is left out together with its partner, so no pair ever shifts, and the
report says which lines those were. Two files of different numbers of lines are refused:
where one has lost a line, every pair behind it would be shifted.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Iterator

from examples.data.lines import lines_of
from examples.data.report import BadLine, DataError, Report

_SCAN = re.compile(rb"\s*IN:(.*?)\sOUT:(.*)", re.DOTALL)
#: The forms that a file of pairs may have, and what each line is expected to be.
FORMATS = {
    "tsv": "source<TAB>target",
    "targets": "source<TAB>target<TAB>another target ...",
    "scan": "IN: source OUT: target",
}


@dataclasses.dataclass
class Corpus:
    """Sentence pairs as read, and what was left out.

    Attributes:
        pairs: List of `(source_text, target_text)`; several may share a source.
        lines: For each pair, its line number in the file, from 1.
        name: The (source) file, for messages.
        report: The `Report` of lines left out.
    """

    pairs: list[tuple[str, str]]
    lines: list[int]
    name: str
    report: Report

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


def read_parallel(
    source: str, target: str, *, max_characters: int | None = 2000, on_bad_line: str = "skip"
) -> Corpus:
    """Reads two files of which line n of one is the translation of line n of the other.

    Args:
        source: Path of the source side, plain or gzip.
        target: Path of the target side, plain or gzip.
        max_characters: Longer lines are left out; None for no limit.
        on_bad_line: `"skip"` leaves bad lines out, `"refuse"` raises after the whole file
            was read, so that all of them are told at once.

    Raises:
        DataError: If a file cannot be read, if the two have different numbers of lines, if no
            pair is left, or if a line is bad and `on_bad_line` is `"refuse"`.
        ValueError: If an argument is wrong.

    Example:

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "de").write_text("Hallo\\n\\nBis bald\\n")
    >>> _ = pathlib.Path(folder, "en").write_text("Hello\\nNothing\\nSee you soon\\n")
    >>> corpus = read_parallel(f"{folder}/de", f"{folder}/en")
    >>> corpus.pairs, corpus.lines
    ([('Hallo', 'Hello'), ('Bis bald', 'See you soon')], [1, 3])
    >>> print(corpus.report.summary())
    2 pairs used, 1 left out: 1 empty
    """
    files = (os.fspath(source), os.fspath(target))
    return _read(_side_by_side(*files), files, max_characters, on_bad_line)


def read_pairs(
    path: str,
    *,
    form: str = "tsv",
    max_characters: int | None = 2000,
    on_bad_line: str = "skip",
) -> Corpus:
    """Reads a file whose lines hold pairs.

    Args:
        path: Path of the file, plain or gzip.
        form: `"tsv"`, `source<TAB>target`, further columns ignored; `"targets"`, where each
            further column is another target of the source and makes another pair; or
            `"scan"`, `IN: source OUT: target`.

    The other arguments, the result and the errors are those of `read_parallel`.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "words.tsv")
    >>> _ = path.write_text("ABS\\tAE B Z\\tEY B IY EH S\\n")
    >>> read_pairs(path, form="targets").pairs
    [('ABS', 'AE B Z'), ('ABS', 'EY B IY EH S')]
    """
    name = os.fspath(path)
    return _read(rows_of(path, form), (name, name), max_characters, on_bad_line, no_pair(form))


def rows_of(path: str, form: str = "tsv") -> Iterator[list[tuple[bytes, bytes | None]]]:
    """Returns the pairs of each line of a file of pairs; None stands for a target that is missing.

    The arguments are those of `read_pairs`.
    """
    if form not in FORMATS:
        raise ValueError(
            f"`form` must be one of {', '.join(map(repr, FORMATS))}. Received: form={form!r}"
        )
    split = {"tsv": _first_target, "targets": _all_targets, "scan": _command}[form]
    return (split(line) if line.strip() else [(line, b"")] for line in lines_of(path))


def no_pair(form: str) -> str:
    """Returns what is wrong with a line that holds no pair."""
    return "no tab" if form == "tsv" else f"expected {FORMATS[form]}"


def _side_by_side(source, target):
    """Yields the lines that both files have; raises at the end if one of them has more."""
    number = both = 0
    for number, sides in enumerate(itertools.zip_longest(lines_of(source), lines_of(target)), 1):
        if None in sides:
            continue
        both = number
        yield [sides]
    if both < number:
        counts = (both, number) if sides[0] is None else (number, both)
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}: line n of one must be "
            "the translation of line n of the other. Find the lines that are missing in one, or "
            "that only one has (an empty one at its end counts too), and make both equally long."
        )


def _first_target(line):
    return [(*line.split(b"\t")[:2], None)[:2]]


def _all_targets(line):
    source, *targets = line.split(b"\t")
    filled = [target for target in targets if target.strip()]
    return [(source, target) for target in filled or targets[:1] or [None]]


def _command(line):
    match = _SCAN.fullmatch(line)
    return [tuple(side.strip() for side in match.groups()) if match else (line, None)]


def _read(rows, files, max_characters, on_bad_line, missing=""):
    if on_bad_line not in ("skip", "refuse"):
        raise ValueError(
            f"`on_bad_line` must be 'skip' or 'refuse'. Received: on_bad_line={on_bad_line!r}"
        )
    if max_characters is not None and max_characters < 1:
        raise ValueError(
            "`max_characters` must be a positive int or None. "
            f"Received: max_characters={max_characters!r}"
        )
    corpus = Corpus([], [], files[0], Report())
    for number, pair in usable_pairs(rows, files, max_characters, missing, corpus.report):
        corpus.pairs.append(pair)
        corpus.lines.append(number)
    _check(corpus, on_bad_line)
    return corpus


def usable_pairs(
    rows: Iterable[list[tuple[bytes, bytes | None]]],
    files: tuple[str, str],
    max_characters: int | None,
    missing: str,
    report: Report,
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields line number and texts of each pair that can be used; the report counts all.

    Args:
        rows: The pairs of each line, see `rows_of`.
        files: The file of each side, for the report.
        max_characters: Longer lines are left out; None for no limit.
        missing: What is wrong with a line that holds no pair.
        report: The `Report`.
    """
    for number, pairs in enumerate(rows, start=1):
        for sides in pairs:
            try:
                pair = _pair(sides, files, number, max_characters, missing)
            except _UnusableError as problem:
                report.add(problem.bad_line)
                continue
            report.used += 1
            yield number, pair


class _UnusableError(Exception):
    def __init__(self, bad_line):
        super().__init__(str(bad_line))
        self.bad_line = bad_line


def _pair(sides, files, number, max_characters, missing):
    """Returns the two texts of a line, or raises `_UnusableError`."""
    if None in sides:
        raise _UnusableError(BadLine(files[0], number, "without a partner", missing))
    source, target = (
        _text(line, file, number, max_characters) for line, file in zip(sides, files, strict=True)
    )
    return source, target


def _text(line, file, number, max_characters):
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
        raise _UnusableError(BadLine(file, number, "not UTF-8", detail)) from None
    if not text.strip():
        raise _UnusableError(BadLine(file, number, "empty"))
    if max_characters is not None and len(text) > max_characters:
        detail = f"{len(text):,} characters, the limit is {max_characters:,}"
        raise _UnusableError(BadLine(file, number, "too long", detail))
    return text


def _check(corpus, on_bad_line):
    report = corpus.report
    if on_bad_line == "refuse":
        report.refuse(corpus.name)
    if not corpus.pairs:
        told = "; ".join(str(bad) for bad in report.examples())
        raise DataError(f"No usable pair in {corpus.name}: {told}. Is this the right file?")
