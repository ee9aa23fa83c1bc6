"""Experiments run one after another, survive interruptions, and write their rows once."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from examples.commands import reproduce, resuming, train_options
from examples.reproduce import experiments, results, running
from examples.reproduce.experiment import Experiment, Goal

ROOT = pathlib.Path(__file__).parents[3]
TINY = (
    "--pairs {data}/{part}.tsv --source-tokenizer characters --target-tokenizer words --no-xla"
    " --num-buckets 1 --units 5 --embedding-dim 7 --maxout-units 3 --epochs 2 --batch-size 8"
)
TEST = "--pairs {data}/{part}.test.tsv --format targets --beam-width 1 --max-length 6"
TABLE = {
    one.name: one
    for one in (
        Experiment("whole", "A | B", "rnnsearch", TINY.replace("{part}", "x"),
                   TEST.replace("{part}", "x"), 3, (Goal("wer", at_most=70),), "WER 1", (5,)),
        Experiment("halves", "halves", "rnnsearch", TINY, TEST, 4,
                   (Goal("wer", at_most=34, above="whole"),), parts=("x", "y")),
    )
}  # fmt: skip

READING = dataclasses.replace(
    TABLE["whole"],
    name="reading",
    training=TINY.replace("{part}", "y"),
    evaluation=f"{TABLE['whole'].evaluation} --aligned-by {{runs}}/whole",
)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data set"
    folder.mkdir()
    for part, letters in (("x", "abcd"), ("y", "efgh")):
        words = [a + b + c for a in letters for b in letters for c in letters]
        lines = [f"{word}\t{' '.join(word.upper())}\n" for word in words]
        (folder / f"{part}.tsv").write_text("".join(lines))
        (folder / f"{part}.test.tsv").write_text("".join(f"{x[:-1]}\tZ\n" for x in lines[:9]))
    return folder


@pytest.fixture
def calls(monkeypatch):
    """Replaces the processes by their traces in the run directory; holds what was called."""
    made = []

    def call(arguments):
        made.append(arguments)
        {"train": leave_run, "evaluate": leave_numbers}[arguments[0]](arguments)

    monkeypatch.setattr(running, "call", call)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", TABLE)
    return made


def leave_run(arguments):
    told = train_options.make_parser(arguments[1]).parse_args(arguments[2:])
    if "no tab" in pathlib.Path(told.pairs).read_text():
        raise running.StepFailed("x.tsv:1: without a partner")
    run = pathlib.Path(told.run)
    run.mkdir(parents=True)
    (run / "history.csv").write_text("epoch,seconds\n1,60.0\n2,90.0\n")
    (run / "model.keras").touch()
    record = {"model": arguments[1], **resuming.plain(told)}
    limits = {name: record[name] for name in resuming.LIMITS}
    record["finished"] = {"reason": "epochs", "limits": limits}
    resuming.write_record(run, record)


def leave_numbers(arguments):
    names = {"x": 80.0, "y": 90.0, "whole": 50.0, "seed-2": 30.0, "reading": 20.0}
    wer = names[pathlib.Path(arguments[1]).name]
    numbers = {"pairs": 9, "exact_match": 0.25, "wer": wer, "per": wer / 10}
    pathlib.Path(arguments[-1]).write_text(json.dumps(numbers))


def start(command, data, tmp_path, *more):
    page = tmp_path / "page.md"
    line = ("--data", data, "--runs", tmp_path / "runs", "--results", page, *more)
    return (*command("reproduce", *line), page)


def test_experiments_go_on_where_they_were_and_write_each_row_once(
    command, calls, data, tmp_path, monkeypatch
):
    call = running.call

    def interrupt(arguments):
        if len(calls) == 3:  # the second part of the second experiment has not begun
            raise KeyboardInterrupt
        call(arguments)

    monkeypatch.setattr(running, "call", interrupt)
    status, out, err, page = start(command, data, tmp_path)
    assert (status, err) == (1, "Interrupted.\n")
    assert [line[0] for line in calls] == ["train", "evaluate", "train"]
    text = page.read_text()
    row = "| `whole` | A / B | WER **50.00**, PER 5.00 | WER <= 70 | WER 1 | 5 | 1.5 |"
    assert text.splitlines().count(row) == 1
    assert "`halves`" not in text

    monkeypatch.setattr(running, "call", call)
    status, out, err, page = start(command, data, tmp_path)
    assert (status, err) == (0, "")
    begun = [(line[0], pathlib.Path(line[3 if line[0] == "train" else 1]).name) for line in calls]
    assert begun[3:] == [("evaluate", "x"), ("train", "y"), ("evaluate", "y")]
    text = page.read_text()
    assert text.count("| `whole` |") == text.count("| `halves` |") == 1
    row = "WER 85.00 (x 80.00, y 90.00) (missed), PER 8.50 (x 8.00, y 9.00)"
    assert f"| `halves` | halves | {row} | WER <= that of whole + 34 | - | 1 | 3.0 |" in text
    assert (
        "# halves (PART: x, y)\npython -m examples train rnnsearch --run runs/halves/PART" in text
    )

    page.write_text(text.replace("| `halves` |", "| `gone` |").replace("# halves", "# gone"))
    status, out, err, page = start(command, data, tmp_path, "who*")
    assert (status, err, len(calls)) == (0, "", 6), "nothing was done again"
    assert page.read_text().count("| `gone` |") == 1, "rows of others stay"
    page.write_text(text)
    assert start(command, data, tmp_path)[0] == 0
    assert page.read_text() == text


@pytest.mark.slow
def test_a_training_that_was_stopped_goes_on(command, data, tmp_path, monkeypatch):
    made = []

    def call(arguments):
        made.append(arguments)
        status, out, err = command(*arguments)
        assert (status, err) == (0, ""), out

    monkeypatch.setattr(running, "call", call)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", TABLE)
    [training] = TABLE["whole"].train(data, tmp_path / "runs")
    assert command(*training, "--epochs", 1)[0] == 0
    status, _, err, page = start(command, data, tmp_path, "whole")
    assert (status, err) == (0, "")
    assert made[0] == [*training, "--resume"]
    assert (tmp_path / "runs" / "whole" / "history.csv").read_text().count("\n") == 3
    numbers = json.loads((tmp_path / "runs" / "whole" / TABLE["whole"].numbers_file).read_text())
    assert (numbers["pairs"], numbers["beam"]) == (9, 1)
    assert f"WER {'**' if numbers['wer'] <= 70 else ''}{numbers['wer']:.2f}" in page.read_text()
    other = dataclasses.replace(TABLE["whole"], training=TABLE["whole"].training + " --units 6")
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": other})
    status, _, err, page = start(command, data, tmp_path, "whole")
    assert status == 1
    assert "was started with --units 5" in err
    assert "error: 1 of 1 failed: whole." in err


def test_a_model_that_changed_is_measured_again(command, calls, data, tmp_path):
    assert start(command, data, tmp_path, "whole")[0] == 0
    runs = tmp_path / "runs"
    run = runs / "whole"
    assert running.numbers_of(TABLE["whole"], runs)["pairs"] == 9
    os.utime(run / "model.keras", (time.time() + 9,) * 2)
    assert running.numbers_of(TABLE["whole"], runs) is None
    (run / TABLE["whole"].numbers_file).write_text("")  # as an evaluation in work leaves it
    assert running.numbers_of(TABLE["whole"], runs) is None


def test_another_evaluation_is_made_anew(command, calls, data, tmp_path, monkeypatch):
    assert start(command, data, tmp_path, "whole")[0] == 0
    other = dataclasses.replace(
        TABLE["whole"], evaluation=f"{TABLE['whole'].evaluation} --beam-width 2"
    )
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": other})
    assert start(command, data, tmp_path, "whole")[0] == 0
    assert [line[0] for line in calls] == ["train", "evaluate", "evaluate"]


def test_a_failure_does_not_keep_the_others_from_running(command, calls, data, tmp_path):
    (data / "x.tsv").write_text("no tab\n")
    status, _, err, page = start(command, data, tmp_path)
    assert status == 1
    assert "whole: x.tsv:1: without a partner" in err
    assert "error: 2 of 2 failed: whole, halves." in err
    assert len(calls) == 2
    assert not page.exists()


def test_nothing_is_run_where_something_is_missing(command, calls, data, tmp_path):
    (data / "y.test.tsv").unlink()
    status, out, err, _ = start(command, data, tmp_path)
    assert (status, out, calls) == (1, "", [])
    assert "y.test.tsv, which halves needs, cannot be read. Name the folder" in err
    status, _, err = command("reproduce", "whole")
    assert (status, err) == (2, "error: Name the folder of the data sets with --data.\n")
    status, _, err = command("reproduce", "hole", "--data", data)
    assert (status, "There is no experiment 'hole'" in err) == (2, True)


def test_an_experiment_that_reads_a_run_needs_it_before_anything_is_trained(
    command, calls, data, tmp_path, monkeypatch
):
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": TABLE["whole"], "reading": READING})
    status, out, err, page = start(command, data, tmp_path, "reading")
    assert (status, out, calls) == (2, "", [])
    runs = tmp_path / "runs"
    assert f"reading reads the run of whole, which is not trained to the end in {runs}." in err
    line = f"reproduce --data '{data}' --runs {runs} --results {page} whole reading`."
    assert line in err
    for more in (["--list"], ["--dry-run"]):
        assert start(command, data, tmp_path, "reading", *more)[0] == 0
    (runs / "whole").mkdir(parents=True)  # begun, and not over
    resuming.write_record(runs / "whole", {"model": "rnnsearch"})
    assert start(command, data, tmp_path, "reading")[0] == 2
    (runs / "whole" / resuming.ARGUMENTS_FILE).unlink()
    (runs / "whole").rmdir()
    status, _, err, _ = start(command, data, tmp_path, "reading", "whole")
    assert (status, err) == (0, "")
    assert [pathlib.Path(line[3]).name for line in calls if line[0] == "train"] == [
        "whole",
        "reading",
    ]
    shutil.rmtree(runs / "whole")  # what is done already reads nothing
    assert start(command, data, tmp_path, "reading")[0] == 0


def test_an_experiment_may_measure_the_run_of_another(command, calls, data, tmp_path, monkeypatch):
    again = dataclasses.replace(
        TABLE["whole"], name="again", training="", measures="whole", evaluation=READING.evaluation
    )
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": TABLE["whole"], "again": again})
    status, _, err, _ = start(command, data, tmp_path, "again")
    assert (status, calls) == (2, []) and "again reads the run of whole, which is not" in err
    many = dataclasses.replace(again, evaluation="--ensemble {runs}/b {runs}/c")
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"again": many})
    assert "reads the runs of whole, b, c, which are not" in start(command, data, tmp_path)[2]
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": TABLE["whole"], "again": again})
    status, _, err, page = start(command, data, tmp_path)
    assert (status, err) == (0, "")
    assert [line[0] for line in calls] == ["train", "evaluate", "evaluate"]
    run = str(tmp_path / "runs" / "whole")
    assert [line[1] for line in calls[1:]] == [run, run] and calls[1] != calls[2]
    text = page.read_text()
    assert "| `again` | A / B | WER **50.00**, PER 5.00 | WER <= 70 | WER 1 | 5 | 0.0 |" in text
    assert text[text.index("# again\n") :].startswith("# again\npython -m examples evaluate")
    assert start(command, data, tmp_path)[0] == 0 and len(calls) == 3


def test_what_was_measured_with_an_older_model_is_measured_again(
    command, calls, data, tmp_path, monkeypatch
):
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": TABLE["whole"], "reading": READING})
    assert start(command, data, tmp_path)[0] == 0
    assert running.outcome_of(READING, tmp_path / "runs") is not None
    os.utime(tmp_path / "runs" / "whole" / "model.keras", (time.time() + 9,) * 2)
    assert running.outcome_of(READING, tmp_path / "runs") is None


def test_what_reads_a_run_that_failed_is_not_trained(command, calls, data, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": TABLE["whole"], "reading": READING})
    (data / "x.tsv").write_text("no tab\n")
    status, _, err, _ = start(command, data, tmp_path)
    assert (status, len(calls)) == (1, 1)
    assert "reading reads the run of whole, which is not trained to the end" in err
    assert "error: 2 of 2 failed: whole, reading." in err


def test_a_goal_relative_to_a_row_that_is_missing_is_told_first(command, calls, data, tmp_path):
    status, out, _, _ = start(command, data, tmp_path, "halves")
    told = "halves: its goal is relative to whole, which is not measured in"
    assert (status, out.startswith(told)) == (0, True)
    status, out, _, _ = start(command, data, tmp_path)
    assert (status, told in out) == (0, False)


def test_all_seeds_are_trained_and_measured_together(command, calls, data, tmp_path, monkeypatch):
    seeds = dataclasses.replace(TABLE["whole"], seeds=(2, 7))
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": seeds})
    status, _, err, page = start(command, data, tmp_path)
    assert (status, err) == (0, "")
    assert [line[0] for line in calls] == ["train", "train", "evaluate"]
    runs = [str(tmp_path / "runs" / "whole" / f"seed-{n}") for n in (2, 7)]
    assert [line[line.index("--seed") + 1] for line in calls[:2]] == ["2", "7"]
    assert [line[line.index("--run") + 1] for line in calls[:2]] == runs
    assert (calls[2][1], calls[2][calls[2].index("--others") + 1]) == tuple(runs)
    row = "| `whole` | A / B | WER **30.00**, PER 3.00 | WER <= 70 | WER 1 | 2, 7 | 3.0 |"
    assert row in page.read_text()
    assert start(command, data, tmp_path)[0] == 0
    assert len(calls) == 3, "nothing was done again"
    os.utime(tmp_path / "runs" / "whole" / "seed-7" / "model.keras", (time.time() + 9,) * 2)
    assert running.outcome_of(seeds, tmp_path / "runs") is None


@pytest.mark.parametrize("parts", [(), ("1", "4")])
def test_tasks_and_seeds_are_all_reported(command, calls, data, tmp_path, monkeypatch, parts):
    def call(arguments):
        if arguments[0] == "train":
            return leave_run(arguments)
        tasks = [pathlib.Path(arguments[1]).parent.name] if parts else ["1", "4"]
        runs = [
            {"run": arguments[place], "tasks": {task: float(task) + error for task in tasks}}
            for place, error in ((1, 3.0), (arguments.index("--others") + 1, 1.5))
        ]
        best = {**runs[1], "error": sum(runs[1]["tasks"].values()) / len(tasks), "runs": runs}
        pathlib.Path(arguments[-1]).write_text(json.dumps(best))

    monkeypatch.setattr(running, "call", call)
    goals = (Goal("error", at_most=5), Goal("error", at_most=4, tasks=("1", "4")))
    both = dataclasses.replace(TABLE["whole"], seeds=(2, 7), goals=goals, parts=parts)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"whole": both, "halves": TABLE["halves"]})
    status, _, err, page = start(command, data, tmp_path, "whole")
    assert (status, err) == (0, "")
    text = page.read_text()
    measured = "error **4.00 %** (1 **2.50 %**, 4 5.50 % (missed))"
    goal = "error <= 5 %, error of each of the tasks 1, 4 <= 4 %"
    assert f"| {measured} | {goal} | WER 1 | 2, 7 |" in text
    table = "| task | seed 2 | seed 7 |\n|---|---|---|\n"
    table += "| 1 | 4.00 | **2.50** |\n| 4 | 7.00 | **5.50** |\n"
    assert text.count(table) == 1
    row = ("| `halves` | y |", "# halves", "")
    results.write(page, {"halves": row}, ["whole", "halves"])
    assert page.read_text().count(table) == 1, "the tables of others stay"
    results.write(page, {}, ["whole", "halves"])
    assert page.read_text().count("`whole`") == text.count("`whole`") == 2


@pytest.mark.parametrize(
    ("measured", "bound", "told"),
    [
        (0.99494, 0.995, "token accuracy 99.49 % (missed)"),
        (0.99496, 0.995, "token accuracy 99.496 % (missed)"),
        (0.9941, 0.995, "token accuracy 99.4 % (missed)"),
        (0.99504, 0.995, "token accuracy **99.5 %**"),
    ],
)
def test_a_goal_missed_by_little_does_not_look_met(measured, bound, told):
    goal = Goal("token_accuracy", at_least=bound)
    experiment = dataclasses.replace(TABLE["whole"], goals=(goal,))
    outcome = results.Outcome({"": {"token_accuracy": measured}}, 1.0)
    assert f"| {told} |" in results.row(experiment, outcome, {})


def test_experiments_are_told_without_running_them(command, calls, data, tmp_path):
    status, out, _, _ = start(command, data, tmp_path, "--dry-run", "--quick", "halves")
    lines = out.splitlines()
    assert (status, len(lines), calls) == (0, 4, [])
    assert "quick/halves/x --seed 1 " in lines[0]
    assert lines[0].endswith(
        "--max-minutes 2 --max-examples 256 --epochs 1 --no-xla --num-buckets 1"
    )
    assert f"--pairs '{data}/y.test.tsv'" in lines[3]
    status, out, _, _ = start(command, data, tmp_path, "--list")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["whole", "to", "do"],
        ["halves", "to", "do"],
    ]


def test_a_count_of_tokens_is_no_result():
    numbers = {"lines": 1000, "tokens": 13_968, "perplexity": 23.71, "accuracy": 39.29}
    outcome = results.Outcome({"": numbers}, minutes=47)
    row = results.row(experiments.EXPERIMENTS["language-lstm"], outcome, {})
    assert "| accuracy 39.29 %, perplexity 23.71 | - |" in row


def test_a_page_with_one_mark_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Results\n{results.BEGIN}\n")
    with pytest.raises(ValueError, match="has one of the two marks of its rows only"):
        results.write(page, {}, [])


def test_the_page_of_results_can_take_rows():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert text.count(results.BEGIN) == text.count(results.END) == 1
    assert text.index(results.BEGIN) < text.index(results.END)


@pytest.mark.slow
def test_an_interrupted_process_leaves_a_backup_and_goes_on(data, tmp_path):
    """As a person does it: Ctrl-C in the middle, then the same command again."""
    program = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from test_command_reproduce import TABLE
from examples.commands import reproduce
from examples.__main__ import main
TABLE = {{"whole": TABLE["whole"]}}
import dataclasses
whole = TABLE["whole"]
training = whole.training.replace("--epochs 2", "--epochs 60 --checkpoint-seconds 0.3")
TABLE["whole"] = dataclasses.replace(whole, training=training)
reproduce.EXPERIMENTS = TABLE
sys.exit(main(sys.argv[1:]))
"""
    runs = tmp_path / "runs"
    line = [sys.executable, "-c", program, "reproduce", "--data", str(data), "--runs", str(runs)]
    line += ["--results", str(tmp_path / "page.md")]
    options = dict(cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    first = subprocess.Popen(line, **options)
    backup = runs / "whole" / "backup" / "training.backup"
    while not backup.exists():
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    told = first.communicate(timeout=120)[0]
    assert first.returncode == 1, told
    assert "To go on from the last backup" in told
    told = subprocess.run(line, **options, timeout=300)
    assert told.returncode == 0, told.stdout
    assert "Done in" in told.stdout
    assert json.loads((runs / "whole" / TABLE["whole"].numbers_file).read_text())["pairs"] == 9
