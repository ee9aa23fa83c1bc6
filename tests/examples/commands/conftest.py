"""Tiny trained runs, and the command line as a fixture."""

import io
import sys

import pytest
from command_line import TINY, answer, sentences


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
    options = ["--max-examples", 96, "--epochs", 1, "--batch-size", 32]
    status, out, err = answer("train", "rnnsearch", "--run", directory, *TINY, *options)
    assert (status, err) == (0, ""), out
    return directory


@pytest.fixture(scope="session")
def words_run(tmp_path_factory, parallel_files):
    """A run on words that has learned 64 sentences by heart."""
    directory = tmp_path_factory.mktemp("words") / "run"
    source, target = parallel_files
    files = [
        "--source",
        source,
        "--target",
        target,
        "--validation-source",
        source,
        "--validation-target",
        target,
    ]
    options = ["--tokenizer", "words", "--epochs", 16, "--batch-size", 8, "--learning-rate", "0.02"]
    larger = ["--units", 16, "--monitor", "exact_match"]
    status, out, err = answer(
        "train", "rnnsearch", "--run", directory, *TINY, *larger, *files, *options
    )
    assert (status, err) == (0, ""), out
    return directory
