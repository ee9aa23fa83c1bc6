"""Reader of labeled documents: a JSON object a line, plain or gzip.

    {"id": "neg/cv000", "fold": 0, "label": "neg", "sentences": ["a film about ...", ...]}

`label` and `sentences` must be there. Sentences are tokenized: words stand between spaces.
`fold`, an int, is needed where folds are chosen; `id` names a document in figures and errors.
Other keys are ignored. A line that is anything else ends the reading: a document has no
partner that could be left out with it, and a corpus of documents is small enough to repair.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Iterable

from examples.data.lines import lines_of
from examples.data.report import DataError

EXPECTED = '{"label": "pos", "sentences": ["a good film .", ...]}'


@dataclasses.dataclass(frozen=True)
class Document:
    """A labeled document.

    Attributes:
        name: Its id, or `line N` of its file.
        label: The name of its class.
        sentences: Tuple of tokenized sentences, none of them empty.
        fold: Number of its fold, or None.
        place: FILE:LINE where it was read, for errors.
    """

    name: str
    label: str
    sentences: tuple[str, ...]
    fold: int | None = None
    place: str = dataclasses.field(default="", repr=False, compare=False)


def read_documents(path: str, folds: Iterable[int] | None = None) -> list[Document]:
    """Reads a file of documents, in its order.

    Args:
        path: Path of the file, plain or gzip.
        folds: The folds that are wanted; None for all documents, with a fold or without.

    Raises:
        DataError: If the file cannot be read, a line is not a document (the error has file,
            line and what was expected), or a fold that is wanted is empty.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "films.jsonl")
    >>> _ = path.write_text('{"label": "pos", "sentences": ["good film .", "see it ."]}')
    >>> read_documents(path)
    [Document(name='line 1', label='pos', sentences=('good film .', 'see it .'), fold=None)]
    """
    name = os.fspath(path)
    documents = [
        _document(line, f"{name}:{number}", number)
        for number, line in enumerate(lines_of(path), start=1)
        if line.strip()
    ]
    if not documents:
        raise DataError(f"{name} holds no document. Expected {EXPECTED} on every line.")
    if folds is None:
        return documents
    wanted = sorted(set(folds))
    counts = collections.Counter(document.fold for document in documents)
    empty = [fold for fold in wanted if not counts[fold]]
    if empty:
        there = sorted(fold for fold in counts if fold is not None)
        raise DataError(
            f"{name} has no document of fold {', '.join(map(str, empty))}. It has the folds "
            f"{', '.join(map(str, there)) or 'of none'}."
        )
    return [document for document in documents if document.fold in wanted]


def is_same_file(one: str, other: str) -> bool:
    """Returns whether two paths lead to one file, however they are written.

    Example:

    >>> is_same_file("films.jsonl", "films.jsonl"), is_same_file("films.jsonl", "others.jsonl")
    (True, False)
    """
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there, which the reader tells
        return os.fspath(one) == os.fspath(other)


def split_sentences(text: str) -> tuple[str, ...]:
    """Returns the sentences of a tokenized text: they end at `.`, `!` or `?` between spaces,
    or with the line.

    Example:

    >>> split_sentences("it is 3.5 hours long . why ?\\nno idea")
    ('it is 3.5 hours long .', 'why ?', 'no idea')
    """
    sentences = []
    for line in text.splitlines():
        words = []
        for word in line.split():
            words.append(word)
            if word in (".", "!", "?"):
                sentences.append(" ".join(words))
                words = []
        if words:
            sentences.append(" ".join(words))
    return tuple(sentences)


def _document(line, place, number):
    """Returns the document of a line; `place` is file:line."""
    try:
        entry = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        at, byte = error.start + 1, line[error.start]
        raise DataError(f"{place}: not UTF-8 (byte {at} is 0x{byte:02x}).") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON ({error}). Expected {EXPECTED}.") from None
    if not isinstance(entry, dict):
        raise _make_error(place, "a JSON object", entry)
    label, sentences = entry.get("label"), entry.get("sentences")
    if not isinstance(label, str) or not label.strip():
        raise _make_error(place, "`label` to be a text", label)
    if not isinstance(sentences, list) or any(not isinstance(each, str) for each in sentences):
        raise _make_error(place, "`sentences` to be a list of texts", sentences)
    if any(
        0xD800 <= ord(character) <= 0xDFFF for text in (label, *sentences) for character in text
    ):
        raise _make_error(place, "texts of Unicode characters, no half of one", sentences)
    kept = tuple(sentence for sentence in sentences if sentence.strip())
    if not kept:
        raise _make_error(place, "at least one sentence that is not empty", sentences)
    fold = entry.get("fold")
    if fold is not None and (isinstance(fold, bool) or not isinstance(fold, int)):
        raise _make_error(place, "`fold` to be a whole number", fold)
    return Document(str(entry.get("id") or f"line {number}"), label, kept, fold, place)


def _make_error(place, expected, value):
    shown = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    shown = shown if len(shown) <= 80 else f"{shown[:80]} ..."
    return DataError(f"{place}: expected {expected}, as in {EXPECTED}. Received: {shown}")
