"""`train --shards`: a run from files that are read while it trains."""

import csv
import gzip
import re
import shutil

import pytest
from command_line import TINY, sentences

SHARDS = ["--tokenizer", "words", "--batch-size", 8, "--epoch-batches", 5, "--shuffle-buffer", 16]


def write(path, pairs):
    content = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def files(tmp_path):
    """The options that name two shards and validation pairs."""
    pairs = sentences(64)
    write(tmp_path / "1.tsv", [*pairs[:30], ("ein", "")])
    write(tmp_path / "2.tsv.gz", pairs[30:])
    dev = write(tmp_path / "dev", pairs[:8])
    return ["--shards", f"{tmp_path}/*.tsv*", "--validation-pairs", dev]


def history(directory):
    with open(directory / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--shards x --pairs y", "either --shards or other files.*--shards x --pairs y"),
        ("--shards x --validation-pairs y", "--shards needs --epoch-batches N.*epoch_batches=None"),
        ("--shards x --epoch-batches 3", "needs --epoch-batches N.*no validation files"),
        ("--epoch-batches 3", "--epoch-batches is for --shards"),
        (
            "--shards x --validation-pairs y --epoch-batches 3 --max-examples 9",
            "--max-examples is for data in",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(command, tmp_path, options, told):
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run", *options.split())
    assert status == 2
    assert re.search(told, err), err
    assert not (tmp_path / "run").exists()


def test_a_pattern_that_matches_nothing_leaves_no_run(command, files, tmp_path):
    files[1] = f"{tmp_path}/nothing*"
    run = tmp_path / "run"
    status, _, err = command("train", "rnnsearch", "--run", run, *TINY, *files, *SHARDS)
    assert (status, err.startswith("error: No file matches")) == (1, True), err
    assert not run.exists()


@pytest.mark.thorough
def test_a_run_from_shards_resumes(command, files, tmp_path):
    options = [*TINY, *files, *SHARDS]
    run, longer = tmp_path / "run", tmp_path / "longer"
    status, out, err = command("train", "rnnsearch", "--run", longer, *options, "--epochs", 3)
    assert (status, err) == (0, ""), out
    assert "training: 2 shards, epochs of 5 batches of 1 shapes" in out
    assert "sample: 64 pairs used, 1 left out: 1 empty" in out
    assert "shards, lines read until epoch 3: " in out
    assert history(longer)[-1]["steps"] == "15.0"
    status, _, err = command("train", "rnnsearch", "--run", run, *options, "--epochs", 1)
    assert (status, err) == (0, "")
    again = ["train", "rnnsearch", "--run", run, "--resume", "--epochs", 3]
    status, out, err = command(*again, "--shuffle-buffer", 17)
    assert (status, "was started with --shuffle-buffer 16" in err) == (1, True)
    status, out, err = command(*again)
    assert (status, err) == (0, ""), out
    assert history(run) == history(longer)
    write(tmp_path / "3.tsv", sentences(3))
    status, out, err = command(*again, "--epochs", 4)
    assert (status, "The training data is not what the run" in err) == (1, True)


@pytest.mark.thorough
def test_a_truncated_shard_ends_the_run_with_one_line(command, files, tmp_path):
    content = (tmp_path / "2.tsv.gz").read_bytes()
    (tmp_path / "2.tsv.gz").write_bytes(content[: len(content) // 2])
    shutil.copy(tmp_path / "1.tsv", tmp_path / "0.tsv")
    options = [*TINY, *files, *SHARDS, "--sample-pairs", 30, "--epoch-batches", 30]
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run", *options)
    assert status == 1
    assert err.startswith(f"error: {tmp_path}/2.tsv.gz is damaged after line ")
    assert err.count("\n") == 1
