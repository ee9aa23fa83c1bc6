"""Stories with questions, in the format of the bAbI tasks (https://arxiv.org/abs/1502.05698).

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <TAB> bathroom <TAB> 1

Lines are numbered; 1 begins a new story. A question is about the sentences before it in its
story; after its answer stand the numbers of the sentences that it needs, or nothing. The 20 tasks
lie in files named `qa1_single-supporting-fact_train.txt`, in a folder or in a tar archive. The
official archive has them in six folders: of `tasks_1-20_v1-2.tar.gz:en` those of one are read.
"""

import dataclasses
import itertools
import lzma
import os
import pathlib
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence

from examples.data.lines import decode_line, lines_of
from examples.data.report import DataError

TASK_FILE = re.compile(r"qa(\d+)_.*_(train|test)\.txt(?:\.gz)?")
JOINT = "joint"
NEW_STORY = 1


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a story.

    Attributes:
        task: The number of the task as text, or the name of the file where it has none.
        story: Number of the story in its file, from 0.
        sentences: What was told before, oldest first.
        question: What is asked.
        answer: One word; several that belong together are joined by commas, as in `n,w`.
        support: Places of the sentences that it needs, in `sentences`; empty if unknown.
    """

    task: str
    story: int
    sentences: tuple[str, ...]
    question: str
    answer: str
    support: tuple[int, ...] = ()


def read_questions(paths: Sequence[str], part: str, task: str = JOINT) -> list[Question]:
    """Returns the questions of one task or of all, in the order of tasks and lines.

    Args:
        paths: Folders or tar archives, of which the files of the part are read, and files,
            which are read whatever they are called. `ARCHIVE:FOLDER` is a folder in an archive.
        part: "train" or "test".
        task: Number of a task as text, or "joint" for all there are.

    Raises:
        DataError: If a path cannot be read, a line is not as described, nothing is found, or a
            path holds a task in several folders.

    Example:

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "garden.txt")
    >>> _ = path.write_text("1 Ann is out.\\n2 Bob sleeps.\\n3 Where is Ann?\\tgarden\\t1\\n")
    >>> [(q.task, q.question, q.answer, q.support) for q in read_questions([path], "train")]
    [('garden', 'Where is Ann?', 'garden', (0,))]
    """
    found = {}
    for path in paths:
        folders = {}
        for folder, name, read in _files(path, part):
            matched = TASK_FILE.fullmatch(pathlib.PurePath(name).name)
            known = matched[1] if matched else _stem(name)
            found.setdefault(known, []).append((name, read))
            folders.setdefault(known, {})[folder] = None
        _refuse_mixed(folders, part)
    tasks = sorted(found, key=lambda known: (not known.isdecimal(), known.zfill(9)))
    chosen = tasks if task == JOINT else [known for known in tasks if known == task]
    if not chosen:
        there = f"those of {', '.join(tasks)}" if tasks else "none"
        raise DataError(
            f"{' '.join(map(str, paths))}: expected a {part} file of "
            f"{'a task' if task == JOINT else f'task {task}'}, such as qa1_single_{part}.txt; "
            f"found {there}."
        )
    return [
        question
        for known in chosen
        for name, read in found[known]
        for question in parse(read(), name, known)
    ]


def parse(content: bytes, name: str, task: str) -> Iterator[Question]:
    """Yields the questions of a file.

    Raises:
        DataError: The first line that is not as described, and what was expected.
    """
    sentences, places, story, last, asked = [], {}, -1, 0, 0
    lines = _lines(content, name)
    for line, raw in enumerate(lines, 1):
        number, _, text = raw.partition(" ")
        if number not in (str(last + 1), str(NEW_STORY)) or (last == 0 and number != "1"):
            expected = "1" if last == 0 else f"{last + 1}, or 1 for a new story"
            raise _bad(name, line, f"the number {expected}, a space and a sentence", raw)
        last = int(number)
        if last == NEW_STORY:
            if asked == story >= 0:
                raise _make_cut_off_error(name, line - 1, lines)
            sentences, places, story = [], {}, story + 1
        if "\t" not in text:
            if not text.strip():
                raise _bad(name, line, "a sentence after the number", raw)
            places[last] = len(sentences)
            sentences.append(text.strip())
            continue
        question, answer, support = _parse_question(text, name, line, raw)
        if not sentences:
            raise _bad(name, line, "a sentence before the first question of a story", raw)
        unknown = [number for number in support if number not in places]
        if unknown:
            raise _bad(name, line, "the numbers of sentences that stand before", raw)
        asked = story + 1  # the stories up to here have questions
        needed = tuple(places[number] for number in support)
        yield Question(task, story, tuple(sentences), question, answer, needed)
    if not asked:
        raise DataError(f"{name}: expected stories with questions; there is no question.")
    if asked == story:
        raise _make_cut_off_error(name, len(lines), lines)


def split(questions: Sequence[Question], every: int = 10) -> tuple[list, list]:
    """Returns training and validation questions: of each task every tenth story is held out.

    The same stories for every seed, so that runs with different seeds are compared on the same
    questions. A story stays whole.

    Example:

    >>> stories = [Question("1", story, ("It rains.",), "Is it dry?", "no") for story in range(20)]
    >>> training, dev = split(stories)
    >>> len(training), [question.story for question in dev]
    (18, [9, 19])
    """
    held_out = [question.story % every == every - 1 for question in questions]
    training = [q for q, out in zip(questions, held_out, strict=True) if not out]
    return training, list(itertools.compress(questions, held_out))


def _parse_question(text, name, line, raw):
    """The question, its answer and the numbers of its sentences."""
    question, answer, *rest = (field.strip() for field in text.split("\t"))
    if not question or len(answer.split()) != 1 or len(rest) > 1:
        raise _bad(
            name,
            line,
            "question<TAB>answer<TAB>numbers of sentences, the answer one word",
            raw,
        )
    numbers = rest[0].split() if rest else []
    if not all(number.isdecimal() for number in numbers):
        raise _bad(name, line, "numbers of sentences after the answer", raw)
    return question, answer, [int(number) for number in numbers]


def is_one_file(path: str) -> bool:
    """Returns whether a path is a file of stories, and no folder or archive of the tasks."""
    path = pathlib.Path(path)
    return path.is_file() and not tarfile.is_tarfile(path)


def _refuse_mixed(folders, part):
    """Raises if a path holds a task in several folders, as the official archive does."""
    for task, held in folders.items():
        if len(held) > 1:
            raise DataError(
                f"The {part} file of task {task} lies in {len(held)} folders: "
                f"{', '.join(sorted(held))}. Name the one to read."
            )


def _files(path, part):
    """Yields (folder, name, function that reads it) of the files that a path stands for."""
    path, inside = _split_path(path)
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.txt")):
                if _is_of(part, file.name):
                    yield str(file.parent), str(file), _reader(file)
        elif inside or tarfile.is_tarfile(path):
            yield from _members(path, part, inside)
        else:
            yield str(path.parent), str(path), _reader(path)
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(
            f"{path}: expected a file or tar archive that is not damaged ({error})."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}. Check the path.") from None


def _reader(path):
    """A function that reads a file of stories, plain or gzip."""
    return lambda: b"\n".join(lines_of(path))


def _split_path(path):
    """The path of a file or folder, and the folder to read in it where an archive has one."""
    archive, _, inside = os.fspath(path).rpartition(":")
    if inside and not os.path.exists(path) and os.path.isfile(archive):
        return pathlib.Path(archive), inside.strip("/")
    return pathlib.Path(path), ""


def _members(path, part, inside):
    """Yields the files of an archive, of all of it or of the folder `inside`."""
    there = set()
    with tarfile.open(path) as archive:
        for member in archive:
            folder = os.path.normpath(os.path.dirname(member.name))
            if not member.isfile() or not _is_of(part, os.path.basename(member.name)):
                continue
            there.add(folder)
            if f"/{inside}/" in f"/{folder}/" or not inside:
                content = archive.extractfile(member).read()
                yield f"{path}:{folder}", f"{path}:{member.name}", lambda content=content: content
    if inside and not any(f"/{inside}/" in f"/{folder}/" for folder in there):
        raise DataError(
            f"{path}: expected a folder {inside} with {part} files of tasks. "
            f"Those are in {', '.join(sorted(there)) or 'none'}."
        )


def _is_of(part, name):
    matched = TASK_FILE.fullmatch(name)
    return matched is not None and matched[2] == part and name.endswith(".txt")


def _stem(name):
    return pathlib.PurePath(name).name.partition(".")[0]


def _lines(content, name):
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [decode_line(line.removesuffix(b"\r"), name, n) for n, line in enumerate(lines, 1)]


def _make_cut_off_error(name, line, lines):
    """The error of a story that ends without a question, as where a file is cut off."""
    return _bad(name, line, "a question about the story before it ends", lines[line - 1])


def _bad(name, line, expected, raw):
    return DataError(f"{name}:{line}: expected {expected}. Received: {raw[:80]!r}")
