"""The command `python -m keras_attention.export`: its flags and its errors, without tracing."""

import pytest
import tensorflow as tf
from search_fields import assert_same, make_search

from keras_attention.export import (
    SearchOptions,
    XLABuckets,
    runs,
)
from keras_attention.export import __main__ as command
from keras_attention.search import (
    SpecialIds,
)


def test_the_command_refuses_a_search_of_terabytes_in_one_line(pieces, tmp_path, capsys):
    run = str(runs.write_run(tmp_path / "run", pieces[0], {"model": "toy"}, *pieces[1:]))
    for option in ("--beam-width", "--max-length"):
        assert command.main([run, str(tmp_path / "base"), option, "100000000000"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: A beam search is expected to take at most 34.4 GB")
    assert not (tmp_path / "base").exists()


def test_the_command_passes_its_options_on(pieces, tmp_path, monkeypatch, capsys):
    model, source, target = pieces
    settings = {"model": "toy", "lengths": {"source": 11, "target": 13}}
    run = str(runs.write_run(tmp_path / "run", model, settings, source, target))
    seen = []

    def record(model, directory, **options):
        seen.append((directory, options))
        (tmp_path / "1").mkdir(exist_ok=True)
        return tmp_path / "1"

    monkeypatch.setattr(command, "export_translator", record)
    assert command.main([run, str(tmp_path)]) == 0
    assert f"Exported {run} to {tmp_path / '1'}" in capsys.readouterr().out
    words = "--version 7 --beam-width 2 --max-length 5 --min-length 3 --max-source-length 9"
    words += " --length-penalty 0.6 --coverage-penalty 0.2 --name m"
    words += " --no-repeat-ngram-size 3 --suppress-tokens <unk> --end-tokens x </s>"
    words += " --repetition-penalty 1.2"
    words += " --xla --xla-batch-sizes 1 8 --xla-source-lengths 16 --xla-precision bfloat16"
    words += " --parallel-splits 2 --dtype float32"
    assert command.main([run, str(tmp_path), *words.split()]) == 0
    (_, defaults), (_, given) = seen
    for options in (defaults, given):
        del options["source"], options["target"]
    assert_same(defaults.pop("search"), SearchOptions(max_length=26))  # twice the longest target
    assert defaults == {
        "version": None,
        "name": None,
        "xla": None,
        "run": settings,
    }
    wanted = make_search(
        beam_width=2,
        max_length=5,
        max_source_length=9,
        length_penalty=0.6,
        coverage_penalty=0.2,
        min_length=3,
        suppress_ids=(1,),
        no_repeat_ngram_size=3,
        repetition_penalty=1.2,
        special_ids=SpecialIds(end_id=(3, 4)),
    )
    assert_same(given.pop("search"), wanted)
    assert given == {
        "version": 7,
        "name": "m",
        "xla": XLABuckets((1, 8), (16,), "bfloat16", 2),
        "run": settings,
    }


def test_options_of_translators_are_refused_for_another_model(tmp_path, monkeypatch, capsys):
    inputs = tf.keras.Input((3,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(inputs))
    run = str(runs.write_run(tmp_path / "run", model, {"model": "han"}))
    monkeypatch.setattr(command, "export_model", lambda *_, **options: seen.append(options))
    seen = []
    words = "--beam-width 4 --suppress-tokens x y --max-source-length 9 --xla"
    words += " --xla-batch-sizes 1 --version 7 --name m"
    assert command.main([run, str(tmp_path), *words.split()]) == 1
    error = capsys.readouterr().err
    assert "is a han, not a translator" in error
    told = error.rpartition("Received: ")[2].strip().split(", ")
    assert sorted(told) == [
        "--beam-width",
        "--max-source-length",
        "--suppress-tokens",
        "--xla",
        "--xla-batch-sizes",
    ]
    assert seen == []


def test_the_command_fails_in_one_line(tmp_path, capsys):
    assert command.main([str(tmp_path / "nowhere"), str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error == f"error: There is no run directory {tmp_path / 'nowhere'}.\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "RUN_DIR"),
        (["run", "base", "--xla-batch-sizes", "0"], "expected a positive integer, got '0'"),
        (["run"], "BASE_DIR"),
        (["run", "base", "--beam-width", "0"], "expected a positive integer, got '0'"),
        (
            ["run", "base", "--xla-batch-sizes", "1"],
            "argument --xla-batch-sizes: requires --xla",
        ),
        (
            ["run", "base", "--xla-source-lengths", "16"],
            "argument --xla-source-lengths: requires --xla",
        ),
        (
            ["run", "base", "--parallel-splits", "2"],
            "argument --parallel-splits: requires --xla",
        ),
        (
            ["--validate", "p", "--beam-width", "4"],
            "--validate: not allowed with other arguments",
        ),
        (["run", "base", "--version", "new"], "expected a positive integer, got 'new'"),
        (["run", "base", "--length-penalty", "x"], "expected average or a number from -10 to 10"),
        (
            ["run", "base", "--max-length", "9" * 4400],
            f"integer of at most {2**63 - 1}, got '{'9' * 40}'...\n",
        ),
        (["run", "base", "--max-source-length", "2000000000"], "at most 1048576, got '2000000000'"),
        (
            ["run", "base", "--no-repeat-ngram-size", "9" * 20],
            f"at most 2147483647, got '{'9' * 20}'",
        ),
    ],
)
def test_wrong_usage_exits_with_2(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err
