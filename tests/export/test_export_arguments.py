"""Wrong arguments, versions and failures of the exporter and its command, without tracing."""

import os

import pytest
import tensorflow as tf
from toy_translator import toy_translator

from keras_attention.decoding import CoveragePenalty, GNMTLengthPenalty
from keras_attention.export import __main__ as command
from keras_attention.export import export_translator, runs, tokenizers, translator, versions


@pytest.fixture(scope="module")
def pieces():
    source = tokenizers.WordTokenizer(["a", "b", "c"])
    target = tokenizers.CharacterTokenizer(["x", "y"])
    return toy_translator(7, 6), source, target


@pytest.fixture
def quick(monkeypatch):
    """Saving writes a marker instead of tracing; what was to be saved is recorded."""
    calls = []

    def save(module, path, signatures):
        calls.append((module, signatures))
        with open(os.path.join(path, "saved_model.pb"), "wb") as file:
            file.write(b"graph")

    monkeypatch.setattr(translator.tf.saved_model, "save", save)
    monkeypatch.setattr(translator, "validate_export", lambda path: [])
    return calls


def export(pieces, base, **options):
    model, source, target = pieces
    return export_translator(model, base, source=source, target=target, **options)


def test_versions_count_on_from_the_highest(pieces, tmp_path, quick):
    assert export(pieces, tmp_path / "deep" / "base") == tmp_path / "deep" / "base" / "1"
    (tmp_path / "007").mkdir()
    (tmp_path / "latest").mkdir()
    (tmp_path / ".9.x.part").mkdir()
    assert export(pieces, tmp_path) == tmp_path / "8"
    assert export(pieces, tmp_path, version=5) == tmp_path / "5"
    assert export(pieces, tmp_path).name == "9"
    assert versions.existing_versions(tmp_path).keys() == {5, 7, 8, 9}


def test_an_existing_version_is_refused_and_kept(pieces, tmp_path, quick):
    path = export(pieces, tmp_path, version=3)
    (tmp_path / "007").mkdir()
    for version in (3, 7):
        with pytest.raises(FileExistsError, match="exists already.*for the next one, 8"):
            export(pieces, tmp_path, version=version)
    assert (path / "saved_model.pb").read_bytes() == b"graph"
    assert len(quick) == 1


def test_a_base_that_is_a_file_is_refused(pieces, tmp_path, quick):
    (tmp_path / "base").touch()
    with pytest.raises(FileExistsError, match="base is a file"):
        export(pieces, tmp_path / "base")


def test_a_failed_export_leaves_nothing(pieces, tmp_path, quick, monkeypatch):
    export(pieces, tmp_path)

    def full_disk(module, path, signatures):
        os.mkdir(os.path.join(path, "variables"))
        with open(os.path.join(path, "saved_model.pb"), "wb") as file:
            file.write(b"half")
        raise tf.errors.ResourceExhaustedError(None, None, "no space left on the disk")

    monkeypatch.setattr(translator.tf.saved_model, "save", full_disk)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="disk"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == ["1"]


def test_what_a_server_cannot_run_is_refused(pieces, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(translator, "validate_export", lambda path: ["op PyFunc calls Python"])
    with pytest.raises(ValueError, match="stock server can run.*Received: op PyFunc calls Python"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beam_width": 0}, "`beam_width` to be a positive int.*beam_width=0"),
        ({"max_length": -1}, "`max_length` to be a positive int.*max_length=-1"),
        ({"max_length": 3, "min_length": 4}, "at most `max_length`.*min_length=4, max_length=3"),
        ({"min_length": -1}, "min_length=-1"),
        ({"max_source_length": 0}, "max_source_length=0"),
        ({"version": 0}, "`version` to be a positive int.*version=0"),
        ({"version": "3"}, "version='3'"),
        ({"length_penalty": 99.0}, "alpha=99.0"),
        ({"coverage_penalty": -1.0}, "beta=-1.0"),
        ({"length_penalty": "gnmt"}, "length_penalty='gnmt'"),
        ({"coverage_penalty": "gnmt"}, "coverage_penalty='gnmt'"),
    ],
)
def test_arguments_are_checked_before_anything_is_written(options, text, pieces, tmp_path):
    with pytest.raises(ValueError, match=text):
        export(pieces, tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_models_and_tokenizers_are_checked(pieces, tmp_path):
    model, source, target = pieces
    wide = tokenizers.WordTokenizer(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="source tokenizer has more ids than the encoder's embed"):
        export((model, wide, target), tmp_path)
    with pytest.raises(ValueError, match="target tokenizer is expected to be a tokenizer"):
        export((model, source, None), tmp_path)
    with pytest.raises(ValueError, match="model of type Sequential|without encoder"):
        export((tf.keras.Sequential(), source, target), tmp_path)


def test_the_command_passes_its_options_on(pieces, tmp_path, monkeypatch, capsys):
    model, source, target = pieces
    settings = {"system": "toy", "lengths": {"source": 11, "target": 13}}
    run = str(runs.write_run(tmp_path / "run", model, settings, source, target))
    seen = []

    def record(model, directory, **options):
        seen.append((directory, options))
        (tmp_path / "1").mkdir(exist_ok=True)
        return tmp_path / "1"

    monkeypatch.setattr(command, "export_translator", record)
    assert command.main([run, str(tmp_path)]) == 0
    assert f"Exported {run} to {tmp_path / '1'}" in capsys.readouterr().out
    words = "--version 7 --beam 2 --max-length 5 --min-length 3 --max-source-length 9"
    words += " --length-penalty 0.6 --coverage-penalty 0.2"
    assert command.main([run, str(tmp_path), *words.split()]) == 0
    defaults, given = ({k: v for k, v in o.items() if k not in SIDES} for _, o in seen)
    assert defaults == {
        "version": None,
        "beam_width": 4,
        "max_length": 13,
        "max_source_length": 512,
        "length_penalty": None,
        "coverage_penalty": None,
        "min_length": 0,
    }
    assert given == {
        "version": 7,
        "beam_width": 2,
        "max_length": 5,
        "max_source_length": 9,
        "length_penalty": 0.6,
        "coverage_penalty": 0.2,
        "min_length": 3,
    }


SIDES = ("source", "target")


def test_numbers_become_penalties(pieces, tmp_path, quick, monkeypatch):
    seen = {}
    functions = translator.signatures.TranslatorFunctions

    def record(*args, **kwargs):
        seen.update(kwargs)
        return functions(*args, **kwargs)

    monkeypatch.setattr(translator.signatures, "TranslatorFunctions", record)
    export(pieces, tmp_path, length_penalty=0.6, coverage_penalty=0.2)
    options = seen["search_options"]
    assert isinstance(options["length_penalty"], GNMTLengthPenalty)
    assert options["length_penalty"].alpha == 0.6
    assert isinstance(options["coverage_penalty"], CoveragePenalty)
    assert options["coverage_penalty"].beta == 0.2


def test_the_command_fails_in_one_line(tmp_path, capsys):
    assert command.main([str(tmp_path / "nowhere"), str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error == f"error: There is no run directory {tmp_path / 'nowhere'}.\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "RUN_DIR"),
        (["run"], "BASE_DIR"),
        (["run", "base", "--beam", "0"], "expected a positive integer, got '0'"),
        (["run", "base", "--version", "new"], "expected a positive integer, got 'new'"),
        (["run", "base", "--length-penalty", "x"], "invalid float value"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err
