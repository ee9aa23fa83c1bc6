"""Cloze questions in the format of the Children's Book Test (https://arxiv.org/abs/1511.02301).

    1 She looked for Ann and Bob .
    2 " Here ! " cried Ann .
    3 Then XXXXX came . <TAB> Bob <TAB><TAB> Ann|Bob|Cy

Numbered sentences, then one with a gap, its answer and the candidates; an empty line between two
questions. Words and marks stand apart. Files may be gzipped.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from examples.data.lines import decode_line, lines_of
from examples.data.report import DataError

GAP = "XXXXX"


@dataclasses.dataclass(frozen=True)
class ClozeQuestion:
    """A sentence with a gap, and what to fill it from.

    Attributes:
        sentences: The sentences before, each words with a space between.
        query: The sentence with the gap, `XXXXX`.
        candidates: Distinct words, one of which belongs into the gap.
        answer: That one.
    """

    sentences: tuple[str, ...]
    query: str
    candidates: tuple[str, ...]
    answer: str

    @property
    def document(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def read_cloze(path: str, limit: int | None = None) -> list[ClozeQuestion]:
    """Returns the questions of a file, at most `limit`.

    Raises:
        DataError: If the file cannot be read, holds no question, or a line is not as described.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cloze.txt")
    >>> _ = path.write_text("1 Ann and Bob .\\n2 XXXXX ran .\\tBob\\t\\tAnn|Bob\\n")
    >>> [(cloze.document, cloze.query, cloze.answer) for cloze in read_cloze(path)]
    [('Ann and Bob .', 'XXXXX ran .', 'Bob')]
    """
    found = []
    lines = (decode_line(line, path, number) for number, line in enumerate(lines_of(path), 1))
    for cloze in parse(lines, str(path)):
        found.append(cloze)
        if len(found) == limit:
            break
    if not found:
        raise DataError(f"{path}: expected cloze questions; there is none.")
    return found


def ask_every_candidate(question: ClozeQuestion) -> list[ClozeQuestion]:
    """Returns a question and, of each other candidate in its query, a further one.

    Such a candidate stands once in the query and in a sentence before, as an answer does.

    Example:

    >>> asked = ClozeQuestion(("Ann saw Bob .",), "XXXXX and Bob ran .", ("Ann", "Bob"), "Ann")
    >>> [(one.query, one.answer) for one in ask_every_candidate(asked)]
    [('XXXXX and Bob ran .', 'Ann'), ('Ann and XXXXX ran .', 'Bob')]
    """
    told = set(question.document.split())
    words = [question.answer if word == GAP else word for word in question.query.split()]
    found = [question]
    for candidate in question.candidates:
        if candidate != question.answer and candidate in told and words.count(candidate) == 1:
            query = " ".join(GAP if word == candidate else word for word in words)
            found.append(dataclasses.replace(question, query=query, answer=candidate))
    return found


def parse(lines: Iterable[str], name: str) -> Iterator[ClozeQuestion]:
    """Yields the questions of a file.

    Raises:
        DataError: The first line that is not as described, and what was expected.
    """
    sentences, asked, number, line = [], False, 0, ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if sentences and not asked:
                expected = "a sentence with a gap before the empty line"
                raise _bad(name, number, expected, line)
            sentences, asked = [], False
            continue
        count, _, text = line.strip().partition(" ")
        if asked:
            raise _bad(name, number, "an empty line after a question", line)
        if count != str(len(sentences) + 1) or not text.strip():
            expected = f"the number {len(sentences) + 1}, a space and a sentence"
            raise _bad(name, number, expected, line)
        if "\t" not in text:
            sentences.append(text.strip())
            continue
        if not sentences:
            raise _bad(name, number, "sentences before the one with a gap", line)
        yield _parse_question(sentences, text, name, number)
        asked = True
    if sentences and not asked:
        raise _bad(name, number, "a sentence with a gap at the end", line)


def _parse_question(sentences, text, name, number):
    query, *fields = (field.strip() for field in text.split("\t"))
    fields = [field for field in fields if field]
    if len(fields) != 2 or query.split().count(GAP) != 1:
        raise _bad(
            name,
            number,
            f"sentence with one {GAP}<TAB>answer<TAB><TAB>candidate|candidate|...",
            text,
        )
    answer = fields[0]
    # The files of the Children's Book Test have candidates that are empty or come twice.
    candidates = tuple(dict.fromkeys(c for c in fields[1].split("|") if c.strip()))
    if answer not in candidates:
        raise _bad(name, number, f"the answer {answer!r} among the candidates", text)
    if len(candidates) < 2 or any(len(c.split()) != 1 for c in candidates):
        raise _bad(name, number, "two or more different candidates of one word each", text)
    return ClozeQuestion(tuple(sentences), query, candidates, answer)


def _bad(name, line, expected, raw):
    shown = raw if len(raw) < 100 else f"{raw[:40]} ... {raw[-50:]}"
    return DataError(f"{name}:{line}: expected {expected}. Received: {shown!r}")
