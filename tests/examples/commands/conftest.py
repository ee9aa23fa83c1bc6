"""Tiny trained runs, and a way to call the command line in this process."""

import contextlib
import io
import sys

import pytest

from examples.__main__ import main

TINY = "--units 8 --embedding-dim 7 --maxout-units 5 --no-jit --shapes 1".split()
WORDS = {
    "ein": "a", "kein": "no", "hund": "dog", "mann": "man", "vogel": "bird", "baum": "tree",
    "schläft": "sleeps", "läuft": "runs", "singt": "sings", "fällt": "falls", "nie": "never",
}  # fmt: skip


def sentences(count):
    """Pairs of German and English sentences, word by word, all different."""
    kinds = [("ein", "kein"), ("hund", "mann", "vogel", "baum")]
    verbs, found = ("schläft", "läuft", "singt", "fällt"), []
    for number in range(count):
        first = [kinds[0][number % 2], kinds[1][number // 2 % 4], verbs[number // 8 % 4]]
        words = first + ["nie"] * (number // 32) + ["."]
        found.append((" ".join(words), " ".join(WORDS.get(word, word) for word in words)))
    return found


def answer(*arguments):
    """Runs the command line; returns the exit status, what it printed, and its errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse, and an interrupted training
            status = ended.code
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def command():
    """The function `answer`."""
    return answer


@pytest.fixture
def standard_input(monkeypatch):
    """A function that makes bytes the standard input."""

    def give(content):
        stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)

    return give


@pytest.fixture(scope="session")
def parallel_files(tmp_path_factory):
    """Two parallel files of 64 sentences."""
    folder = tmp_path_factory.mktemp("parallel")
    for place, name in enumerate(("de", "en")):
        lines = "".join(f"{pair[place]}\n" for pair in sentences(64))
        (folder / name).write_text(lines, encoding="utf-8")
    return folder / "de", folder / "en"


@pytest.fixture(scope="session")
def dates_run(tmp_path_factory):
    """A run of one epoch on 96 dates. Tests copy it before they change it."""
    directory = tmp_path_factory.mktemp("dates") / "run"
    options = ["--max-pairs", 96, "--epochs", 1, "--batch-size", 32]
    status, out, err = answer("train", "rnnsearch", "--run", directory, *TINY, *options)
    assert (status, err) == (0, ""), out
    return directory


@pytest.fixture(scope="session")
def words_run(tmp_path_factory, parallel_files):
    """A run on words that has learned 64 sentences by heart."""
    directory = tmp_path_factory.mktemp("words") / "run"
    source, target = parallel_files
    files = ["--source", source, "--target", target, "--dev-source", source, "--dev-target", target]
    options = ["--tokens", "words", "--epochs", 16, "--batch-size", 8, "--learning-rate", "0.02"]
    larger = ["--units", 16, "--monitor", "exact_match"]
    status, out, err = answer(
        "train", "rnnsearch", "--run", directory, *TINY, *larger, *files, *options
    )
    assert (status, err) == (0, ""), out
    return directory
