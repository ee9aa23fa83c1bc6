import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from examples import predict, registry
from examples.__main__ import COMMANDS
from examples.commands import by_run
from keras_attention.export import tokenizers

ROOT = pathlib.Path(__file__).parents[3]


def assert_one_line(err, told):
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    assert told in err, err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("trian", "invalid choice: 'trian' (choose from "),
        ("train rnnsaerch --run x", "invalid choice: 'rnnsaerch' (choose from "),
        ("train rnnsearch", "the following arguments are required: --run"),
        ("train rnnsearch --run x --foo", "unrecognized arguments: --foo"),
        ("list more", "unrecognized arguments: more"),
        ("plot x", "the following arguments are required: --output-dir"),
        ("translate x --max-length 0", "--max-length: expected a positive integer, got '0'"),
        ("translate x --beam-width 0", "--beam-width: expected a positive integer, got '0'"),
        (
            "translate x --length-penalty 11",
            "expected average or a number from -10 to 10, got '11'",
        ),
        ("export x y --version 0", "--version: expected a positive integer, got '0'"),
    ],
)
def test_wrong_usage_ends_with_status_2(command, line, told):
    status, out, err = command(*line.split())
    assert (status, out) == (2, "")
    assert err.startswith("usage: ")
    assert told in err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--max-minutes 0", "expected a positive number, got '0'"),
        ("--max-minutes -3", "expected a positive number, got '-3'"),
        ("--max-minutes nan", "expected a positive number, got 'nan'"),
        ("--learning-rate -1", "expected a positive number, got '-1'"),
        ("--dropout 2", "expected a number from 0 to below 1, got '2'"),
        ("--label-smoothing 1", "expected a number from 0 to below 1, got '1'"),
        ("--ema-decay 1.5", "expected a number between 0 and 1, got '1.5'"),
        ("--validation-fraction 0", "expected a number between 0 and 1, got '0'"),
        ("--units 0", "expected a positive whole number, got '0'"),
        ("--epochs 1.5", "expected a positive whole number, got '1.5'"),
        ("--seed -1", "expected a whole number of at least 0"),
        ("--vocabulary-size 4", "expected a whole number of at least 5, got '4'"),
        ("--stop-at-metric nan", "expected a finite number, got 'nan'"),
        ("--stop-at-metric inf", "expected a finite number, got 'inf'"),
        ("--scheduled-sampling linear:inf", "Scheduled sampling is "),
    ],
)
def test_numbers_out_of_range_are_refused(command, tmp_path, option, told):
    run = tmp_path / "run"
    status, _, err = command("train", "rnnsearch", "--run", run, *option.split())
    assert status == 2
    assert f"argument {option.split()[0]}: {told}" in err
    assert not run.exists()


@pytest.mark.parametrize(
    "line",
    [
        "translate --language-model english mine",
        "translate --language-model=english mine",
        "evaluate --language-model english --max-examples 3 mine",
        "evaluate mine --language-model english",
        "plot --output-dir english mine text",
        "plot --output-dir english mine",
        "translate mine english",
        "translate mine --beam-width 0 english",
    ],
)
def test_the_run_is_not_the_value_of_an_option(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    for name, model in (("english", "lstm-language-model"), ("mine", "rnnsearch")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"model": model}))
    name, *words = line.split()
    command = importlib.import_module(f"examples.commands.{name}")
    expected = by_run.RunCommand(command, registry.find("rnnsearch").recipe)
    assert by_run.part(command, [name, *words]).SUMMARY == expected.SUMMARY


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--source a", "--source was given without --target. Name both files"),
        ("--target a", "--target was given without --source. Name both files"),
        ("--pairs a --source b", "either two parallel files (--source, --target) or one of pairs"),
        (
            "--source a --target b --validation-source c",
            "--validation-source was given without --validation-target",
        ),
        ("--validation-pairs a", "Validation files were given without training files"),
    ],
)
def test_files_that_do_not_go_together_are_wrong_usage(command, tmp_path, options, told):
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "x", *options.split())
    assert status == 2
    assert_one_line(err, told)


def test_minimum_count_is_not_for_subwords(command, tmp_path):
    (tmp_path / "pairs").write_text("a\tb\n" * 100)
    options = ["--pairs", tmp_path / "pairs", "--min-frequency", 2]
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run", *options)
    assert status == 2
    assert_one_line(err, "SentencePiece has --vocabulary-size")


def test_files_that_cannot_be_used(command, tmp_path):
    missing, empty, few = (tmp_path / name for name in ("missing", "empty", "few"))
    empty.touch()
    few.write_text("a\tb\nc\td\n")
    for file, told in (
        (missing, f"{missing} does not exist. Check the path."),
        (empty, f"{empty} is empty. Give a file"),
        (tmp_path, f"{tmp_path} is a folder. Name a file"),
        (few, "2 different sources are too few to hold 0.02 of them out for evaluation."),
    ):
        status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run", "--pairs", file)
        assert status == 1
        assert_one_line(err, told)
        assert not (tmp_path / "run").exists()


def test_nothing_stays_of_a_run_that_could_not_begin(command, tmp_path):
    pairs = ("--pairs", tmp_path / "missing")
    status, _, _ = command("train", "rnnsearch", "--run", tmp_path / "a" / "b" / "run", *pairs)
    assert status == 1
    assert [*tmp_path.iterdir()] == []


@pytest.mark.thorough
def test_directories_that_cannot_be_used(command, dates_run, tmp_path):
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text("x")
    empty.mkdir()
    train = ("train", "rnnsearch", "--run")
    for line, told in (
        ((*train, dates_run), f"{dates_run} is not empty. Name another directory"),
        ((*train, file), f"{file} is a file. Name a directory"),
        ((*train, file / "x"), f"{file / 'x'}: Not a directory. Part of the path is a file"),
        ((*train, empty, "--resume"), f"There is no run in {empty} to resume. Leave --resume"),
        (
            ("train", "ram", "--run", empty, "--resume"),  # and not that it needs --mnist
            f"There is no run in {empty} to resume. Leave --resume",
        ),
        (("evaluate", empty, "--size", "length=6"), f"{empty} is not a run directory"),
        ((*train, tmp_path, "--resume"), f"{tmp_path} holds files, but no run to resume"),
        (("translate", empty, "x"), f"{empty} is not a run directory"),
        (("translate", tmp_path / "no", "x"), f"There is no run directory {tmp_path / 'no'}"),
        (("plot", dates_run, "--output-dir", file), f"{file}: File exists. A file is in the way"),
        (("export", dates_run, file), f"{file} is a file. Choose a directory"),
        (("evaluate", dates_run, "--json", file / "x"), f"{file}: File exists. A file is in"),
    ):
        status, _, err = command(*line)
        assert status == 1, err
        assert_one_line(err, told)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(command, tmp_path):
    tmp_path.chmod(0o500)
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run")
    tmp_path.chmod(0o700)
    assert status == 1
    assert_one_line(err, "Permission denied. Name one you may write to.")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "how", "told"),
    [
        ("model.keras", "cut", "model.keras cannot be loaded as a Keras model. Restore it"),
        ("model.keras", "gone", "has no model.keras"),
        ("run.json", "cut", "run.json is not valid JSON. Restore it"),
        ("run.json", "gone", "it has no run.json"),
        ("source.tokenizer/vocab.txt", "cut", "(their SHA-256 digests differ). Restore"),
        ("target.tokenizer/tokenizer.json", "gone", "There is no tokenizer file"),
        ("arguments.json", "cut", "arguments.json is damaged. Restore it"),
    ],
)
def test_a_damaged_run_is_told_in_one_line(command, dates_run, tmp_path, name, how, told):
    run = pathlib.Path(shutil.copytree(dates_run, tmp_path / "run"))
    content = (run / name).read_bytes()
    (run / name).unlink()
    if how == "cut":
        (run / name).write_bytes(content[: len(content) // 2])
    line = ("train", "rnnsearch", "--run", run, "--resume", "--epochs", 2)
    status, _, err = command(*(line if name == "arguments.json" else ("translate", run, "x")))
    assert status == 1
    assert_one_line(err, told)


def test_tokenizers_that_do_not_fit_the_model(command, dates_run, tmp_path):
    run = pathlib.Path(shutil.copytree(dates_run, tmp_path / "run"))
    tokenizers.train("characters", ["abcdefghijklmnopqrstuvwxyz"]).save(run / "target.tokenizer")
    status, _, err = command("translate", run, "x")
    assert status == 1
    assert_one_line(err, "more ids than the decoder's logits; they do not belong together")


@pytest.mark.thorough
def test_a_run_on_files_has_no_default_texts(command, words_run, tmp_path):
    for line, told in (
        (("plot", words_run, "--output-dir", tmp_path), "Name the texts to draw: "),
        (
            ("plot", words_run, "--output-dir", tmp_path, "ein", " "),
            "Leave it out. Received: text 2 of 2",
        ),
        (("evaluate", words_run), "trained on your own data. Name test files"),
    ):
        status, _, err = command(*line)
        assert status == 2
        assert_one_line(err, told)


def test_what_is_not_measured_is_refused(command, dates_run, words_run, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    pairs = ("--pairs", tmp_path / "pairs.tsv")
    for line, told in (
        ((dates_run, "--measure", "bleu"), "--measure is for files"),
        ((dates_run, "--bleu-tokenize", "13a"), "--bleu-tokenize is for files"),
        ((dates_run, "--format", "scan"), "--format is for files"),
        ((words_run, *pairs, "--measure", "wer", "--bleu-tokenize", "13a"), "is for BLEU"),
    ):
        status, _, err = command("evaluate", *line)
        assert status == 2
        assert_one_line(err, told)


def test_unforeseen_errors_keep_their_traceback(command, monkeypatch):
    from examples.commands import list as listing

    monkeypatch.setattr(listing, "run", lambda arguments: {}["a bug"])
    with pytest.raises(KeyError, match="a bug"):
        command("list")


def test_an_error_of_a_layer_is_told_in_its_own_words(command, monkeypatch):
    from examples.commands import list as listing

    def run(arguments):
        message = "Exception encountered when calling A.call().\n\n\x1b[1mA expects\nb.\x1b[0m\n"
        raise ValueError(f"{message}\nArguments received by A.call():\n  • c=1")

    monkeypatch.setattr(listing, "run", run)
    assert command("list") == (1, "", "error: A expects b.\n")


def test_what_is_not_installed_is_named(command, monkeypatch):
    from examples.commands import list as listing

    monkeypatch.setattr(listing, "run", lambda arguments: __import__("not_there"))
    status, _, err = command("list")
    assert status == 1
    assert_one_line(err, "No module named 'not_there'. Install the packages of the examples: pip")


def test_nothing_to_ask(capsys, tmp_path):
    assert predict.main([str(tmp_path), "x"]) == 1
    assert_one_line(capsys.readouterr().err, "Write one: python -m examples export RUN")
    (tmp_path / "3").mkdir()
    assert predict.main([str(tmp_path), "x"]) == 1
    assert_one_line(capsys.readouterr().err, "SavedModel file does not exist")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_every_default(command, name):
    line = ("train", "rnnsearch") if name == "train" else (name,)
    status, out, err = command(*line, "--help")
    assert (status, err) == (0, "")
    assert "python -m examples" in out.split("options:")[1]
    assert "None" not in out
    assert max(map(len, out.splitlines())) <= 110
    if name == "train":
        parts = [part.split("\n\n")[0] for part in out.split("\n  --")[1:]]
        options = [part for part in parts if not part.startswith("run ")]
        assert {part.split()[0] for part in options if "default" not in part} == {"resume"}


@pytest.mark.thorough
def test_the_module_runs_as_a_command():
    asked = subprocess.run(
        [sys.executable, "-m", "examples", "list"], cwd=ROOT, text=True, capture_output=True
    )
    assert (asked.returncode, asked.stderr) == (0, "")
    lines = asked.stdout.splitlines()
    assert lines[0] == "Learns to write the target of a source; without data, dates as ISO 8601."
    told = [line.split() for line in lines if line.startswith("  ")]
    assert sorted(words[0] for words in told) == sorted(registry.MODELS)
    assert "rnnsearch RNNsearch: bidirectional GRU," in [" ".join(words[:4]) for words in told]
    learned = "Learns an algorithm from random sequences, which are made while it trains."
    assert lines[lines.index(learned) + 1].split()[0] == "ntm"


@pytest.mark.parametrize(
    ("was_there", "name", "sizes", "told"),
    [
        # By a layer, after the tokenizers were written.
        (False, "transformer", "--units 16 --heads 3", "num_heads"),
        (True, "transformer", "--units 16 --heads 3", "num_heads"),
        (
            False,
            "transformer",
            "--units 4 --heads 2 --layers 1 --positions learned --max-length 10",
            "transformer learns 10 positions of the source, fewer than the training data needs. "
            "Give a larger --max-length, or leave out what is longer with --max-source-tokens 10. "
            "Received: a source of ",
        ),
        (
            True,
            "convs2s",
            "--units 4 --embedding-dim 4 --max-length 10 --max-source-tokens 10",
            "convs2s learns 10 positions of the target, fewer than the training data needs. "
            "Give a larger --max-length, or leave out what is longer with --max-target-tokens 10. "
            "Received: a target of 11 tokens, the EOS token counted",
        ),
    ],
)
def test_a_run_that_cannot_be_built_leaves_nothing(command, tmp_path, was_there, name, sizes, told):
    directory = tmp_path / "run"
    if was_there:
        directory.mkdir()
    options = [*sizes.split(), "--max-examples", 400]
    status, _, err = command("train", name, "--run", directory, *options)
    assert status == 1
    assert_one_line(err, told)
    assert directory.exists() == was_there
    assert not was_there or list(directory.iterdir()) == []
