import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from keras_attention.data import atomic_files

pytestmark = pytest.mark.thorough

ROOT = pathlib.Path(__file__).parents[3]
BACKUP = pathlib.Path("backup", "training.backup")


@pytest.fixture
def copy_of_run(dates_run, tmp_path):
    return pathlib.Path(shutil.copytree(dates_run, tmp_path / "run"))


def contents(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def history(directory):
    with open(directory / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_a_finished_run_says_so_and_stays_as_it_is(command, copy_of_run):
    before = contents(copy_of_run)
    status, out, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume")
    assert (status, err) == (0, "")
    assert "is finished (epochs); nothing was changed" in out
    assert "a larger --epochs. Received: --epochs 1" in out
    status, _, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume", "--units", 17)
    assert (status, "was started with --units" in err) == (1, True)
    assert contents(copy_of_run) == before


def test_a_run_whose_rate_has_fallen_keeps_its_epochs(command, tmp_path):
    run = tmp_path / "run"
    train = ("train", "rnnsearch", "--run", run)
    tiny = ("--units", 4, "--embedding-dim", 3, "--max-examples", 40, "--no-xla")
    options = ("--epochs", 2, "--decay-epochs", 1, "--patience", 9)
    assert command(*train, *tiny, *options)[0] == 0
    before = contents(run)
    status, out, _ = command(*train, "--resume")
    assert (status, "has taken its rate to 0: to train longer, start a" in out) == (0, True)
    status, _, err = command(*train, "--resume", "--epochs", 3)
    assert (status, "was started with --epochs 2. Leave --epochs out" in err) == (1, True)
    assert contents(run) == before


def test_one_process_trains_a_run_at_a_time(command, copy_of_run):
    before = contents(copy_of_run)
    begin = ("train", "rnnsearch", "--run", copy_of_run)
    resume = (*begin, "--resume", "--epochs", 2)
    with atomic_files.lock_directory(copy_of_run):
        for line in (begin, resume):
            status, _, err = command(*line)
            assert (status, contents(copy_of_run)) == (1, before)
            assert f"Another process is training the run in {copy_of_run}. Wait until" in err
    status, out, err = command(*resume)
    assert (status, err, "Resumed in epoch 2" in out) == (0, "", True)


def test_a_longer_run_goes_on_with_the_options_it_began_with(
    command, words_run, parallel_files, tmp_path
):
    run = pathlib.Path(shutil.copytree(words_run, tmp_path / "run"))
    moved = shutil.copy(parallel_files[1], tmp_path / "moved")
    first = history(run)
    status, out, err = command(
        *("train", "rnnsearch", "--run", run, "--resume"),
        *("--epochs", len(first) + 1, "--target", moved),
    )
    assert (status, err) == (0, "")
    assert f"Resumed in epoch {len(first) + 1}" in out
    assert "best exact_match" in out
    assert history(run)[:-1] == first
    assert json.loads((run / "run.json").read_text())["model_options"]["units"] == 16
    status, out, _ = command("train", "rnnsearch", "--run", run, "--resume")
    assert (status, f"Received: --epochs {len(first) + 1}" in out) == (0, True)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--units", 9), "was started with --units 8. Leave --units out"),
        (("--learning-rate", 0.5), "was started with no --learning-rate"),
        (("--optimizer", "sgd"), "was started with --optimizer adam"),
        (("--lowercase",), "was started with no --lowercase. .* Received: --lowercase$"),
        (("--max-source-tokens", 9), "with no --max-source-tokens. .* --max-source-tokens 9$"),
    ],
)
def test_other_options_are_refused(command, copy_of_run, option, told):
    before = contents(copy_of_run)
    status, _, err = command(
        "train", "rnnsearch", "--run", copy_of_run, "--resume", "--epochs", 2, *option
    )
    assert status == 1
    assert re.search(told, err), err
    assert contents(copy_of_run) == before


def test_other_data_is_refused(command, words_run, parallel_files, tmp_path):
    run = shutil.copytree(words_run, tmp_path / "run")
    changed = tmp_path / "changed"
    text = parallel_files[1].read_text(encoding="utf-8")
    again = ["train", "rnnsearch", "--run", run, "--resume", "--epochs", 99]
    before = contents(tmp_path / "run")
    for flag, part in (("--target", "training"), ("--validation-target", "validation")):
        changed.write_text(text.replace("bird", "tree"), encoding="utf-8")
        status, _, err = command(*again, flag, changed)
        assert status == 1
        assert f"error: The {part} data is not what the run in {run} was started with" in err
    assert contents(tmp_path / "run") == before


def test_a_run_from_before_data_was_recorded_can_go_on(command, copy_of_run):
    path = copy_of_run / "arguments.json"
    record = json.loads(path.read_text())
    for name in ("data", "finished", "monitor"):
        del record[name]
    path.write_text(json.dumps(record))
    status, out, err = command(
        "train", "rnnsearch", "--run", copy_of_run, "--resume", "--epochs", 2
    )
    assert (status, err) == (0, "")
    assert "Resumed in epoch 2" in out


def remove(run, *names):
    """Removes files and folders of a run."""
    for name in names:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def mark_unfinished(run):
    """Makes the record of a run that of one that was interrupted."""
    record = json.loads((run / "arguments.json").read_text())
    del record["finished"]
    (run / "arguments.json").write_text(json.dumps(record))


def test_a_run_killed_before_its_first_backup_begins_anew(command, copy_of_run):
    remove(copy_of_run, "backup", "model.keras", "run.json", "history.csv")
    mark_unfinished(copy_of_run)
    status, out, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume")
    assert (status, err) == (0, "")
    assert "training: 96 pairs" in out
    assert "Resumed" not in out


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (("backup",), "is finished and has no backup to go on from"),
        (("arguments.json",), "has lost its arguments.json. Restore it"),
    ],
)
def test_a_run_that_lost_a_part_is_not_overwritten(command, copy_of_run, lost, told):
    remove(copy_of_run, *lost)
    before = contents(copy_of_run)
    status, _, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume", "--epochs", 2)
    assert (status, told in err) == (1, True), err
    assert contents(copy_of_run) == before


@pytest.mark.parametrize("lost", [("backup",), ("backup", "arguments.json")])
def test_an_unfinished_run_without_its_backup_is_not_overwritten(command, copy_of_run, lost):
    mark_unfinished(copy_of_run)
    remove(copy_of_run, *lost)
    before = contents(copy_of_run)
    for more in ((), ("--pairs", copy_of_run / "nothing")):
        status, _, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume", *more)
        assert (status, "holds model.keras, but no backup to go on from" in err) == (1, True), err
        assert contents(copy_of_run) == before


def test_a_packed_training_is_not_overwritten(command, copy_of_run):
    remove(copy_of_run, "backup", "model.keras", "run.json", "history.csv")
    mark_unfinished(copy_of_run)
    (copy_of_run / "training.npz").touch()
    before = contents(copy_of_run)
    status, _, err = command("train", "rnnsearch", "--run", copy_of_run, "--resume")
    assert (status, "holds training.npz, but no backup to go on from" in err) == (1, True), err
    assert contents(copy_of_run) == before


def test_a_failure_removes_only_what_is_new(command, copy_of_run):
    names = ("model.keras", "run.json", "history.csv", "arguments.json", "target.tokenizer")
    remove(copy_of_run, "backup", *names)
    before = contents(copy_of_run)
    resume = ("train", "rnnsearch", "--run", copy_of_run, "--resume")
    status, _, err = command(*resume, "--pairs", copy_of_run / "nothing")
    assert (status, "does not exist" in err) == (1, True), err
    assert contents(copy_of_run) == before


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_history(tmp_path, parallel_files):
    source, target = map(str, parallel_files)
    options = [
        *("--source", source, "--target", target, "--tokenizer", "words", "--no-xla"),
        *("--units", "8", "--embedding-dim", "8", "--dropout", "0.3", "--ema-decay", "0.9"),
        *("--batch-size", "4", "--epochs", "60", "--checkpoint-seconds", "0.2"),
    ]

    def start(directory, *more):
        line = [sys.executable, "-m", "examples", "train", "rnnsearch", "--run", directory, *more]
        return subprocess.Popen(
            line, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    whole = start(tmp_path / "whole", *options)
    killed = start(tmp_path / "killed", *options)
    backup, seen = tmp_path / "killed" / BACKUP, set()
    for _ in range(2):
        enough = len(seen) + 3  # some were written since this process began
        while len(seen) < enough:
            assert killed.poll() is None, killed.communicate()[0]
            seen |= {backup.stat().st_mtime_ns} if backup.exists() else set()
            time.sleep(0.05)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        assert len(history(tmp_path / "killed")) < 60, "it must be killed on the way"
        killed = start(tmp_path / "killed", "--resume")
    told = killed.communicate(timeout=300)[0]
    assert killed.returncode == 0, told
    assert "Resumed in epoch" in told
    assert whole.wait(timeout=300) == 0
    assert history(tmp_path / "killed") == history(tmp_path / "whole")
    assert len(history(tmp_path / "whole")) == 60
