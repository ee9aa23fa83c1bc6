"""The run directory: whole or absent, clear about what is wrong, readable without examples."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from toy_translator import toy_translator

from examples.models import transformer
from keras_attention.export import runs, tokenizers

SETTINGS = {
    "model": "toy",
    "model_options": {"units": 7},
    "seed": 3,
    "lengths": {"source": 11, "target": 13},
}


@pytest.fixture(scope="module")
def pieces():
    source = tokenizers.WordTokenizer(["a", "b", "c"])
    target = tokenizers.CharacterTokenizer(["x", "y"])
    return toy_translator(7, 6), source, target


def write(directory, pieces, settings=None, **options):
    model, source, target = pieces
    return runs.write_run(directory, model, settings or SETTINGS, source, target, **options)


def logits_of(model):
    inputs = {"source": np.array([[4, 5, 3]]), "target": np.array([[2, 4]])}
    return keras.ops.convert_to_numpy(model(inputs))


def test_a_run_comes_back(pieces, tmp_path):
    directory = write(tmp_path / "deep" / "run", pieces)
    assert sorted(os.listdir(directory)) == [
        "model.keras",
        "run.json",
        "source.tokenizer",
        "target.tokenizer",
    ]
    run = runs.read_run(directory)
    assert run.settings == SETTINGS
    assert run.source_tokenizer.vocabulary == ["a", "b", "c"]
    assert run.target_tokenizer.kind == "characters"
    assert run.model is run.model
    np.testing.assert_array_equal(logits_of(run.model), logits_of(pieces[0]))
    description = json.loads((directory / "run.json").read_text())
    assert description["schema_version"] == 1
    assert description["special_ids"] == {"padding": 0, "unknown": 1, "start": 2, "end": 3}


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_a_run_of_mixed_precision_may_be_read_in_float32(dtype, tmp_path):
    words = tokenizers.WordTokenizer(["a", "b", "c"])

    def build(dtype):
        return transformer.build(7, 7, units=8, heads=2, layers=1, dropout=0.1, dtype=dtype)

    mixed, exact = build(dtype), build(None)
    exact.set_weights(mixed.get_weights())
    runs.write_run(tmp_path / "run", mixed, SETTINGS, words, words)
    same, widened = (runs.read_run(tmp_path / "run", dtype=d).model for d in (None, "float32"))
    assert same.get_layer("decoder").compute_dtype == dtype.removeprefix("mixed_")
    assert widened.get_layer("decoder").compute_dtype == "float32"
    assert not np.array_equal(logits_of(same), logits_of(exact))
    np.testing.assert_allclose(logits_of(widened), logits_of(exact), rtol=1e-6, atol=1e-6)
    for one, other in zip(widened.get_weights(), mixed.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_table_that_encoder_and_decoder_share_is_shared_in_float32(tmp_path):
    words = tokenizers.WordTokenizer(["a", "b", "c"])
    sizes = {"units": 8, "heads": 2, "layers": 1, "share_embeddings": True}
    mixed = transformer.build(7, 7, **sizes, dtype="mixed_bfloat16")
    runs.write_run(tmp_path / "run", mixed, SETTINGS, words, words)
    widened = runs.read_run(tmp_path / "run", dtype="float32").model
    assert widened.count_params() == mixed.count_params()
    exact = transformer.build(7, 7, **sizes)
    exact.set_weights(mixed.get_weights())
    np.testing.assert_allclose(logits_of(widened), logits_of(exact), rtol=1e-6, atol=1e-6)


def test_a_run_is_replaced_only_on_request_and_training_files_stay(pieces, tmp_path):
    write(tmp_path, pieces)
    (tmp_path / "history.csv").write_text("epoch,loss\n")
    (tmp_path / "checkpoints" / "9").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="already holds a run.*replace=True"):
        write(tmp_path, pieces)
    other = toy_translator(7, 6, seed=12)
    write(tmp_path, (other, *pieces[1:]), SETTINGS | {"seed": 4}, replace=True)
    assert (tmp_path / "history.csv").read_text() == "epoch,loss\n"
    assert (tmp_path / "checkpoints" / "9").is_dir()
    run = runs.read_run(tmp_path)
    assert run.settings["seed"] == 4
    np.testing.assert_array_equal(logits_of(run.model), logits_of(other))


def test_a_failed_save_leaves_the_old_run(pieces, tmp_path, monkeypatch):
    write(tmp_path, pieces)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full_disk(self, path, *args, **kwargs):
        pathlib.Path(path).write_bytes(b"half")
        raise OSError("no space left on the disk")

    monkeypatch.setattr(keras.Model, "save", full_disk)
    with pytest.raises(OSError, match="disk"):
        write(tmp_path, pieces, SETTINGS | {"seed": 4}, replace=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_new_tokenizers_with_an_old_model_are_never_a_run(pieces, tmp_path, monkeypatch):
    model, source, _ = pieces
    write(tmp_path, pieces)
    monkeypatch.setattr(keras.Model, "save", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path, (model, source, tokenizers.WordTokenizer(["z"])), replace=True)
    with pytest.raises(FileNotFoundError, match="has no run.json"):
        runs.read_run(tmp_path)


def test_a_model_without_tokenizers_may_replace_a_translator(pieces, tmp_path, monkeypatch):
    inputs = keras.Input((3,))
    other = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    write(tmp_path, pieces)
    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "save", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(tmp_path, (other, None, None), replace=True)
    with pytest.raises(FileNotFoundError, match="has no run.json"):
        runs.read_run(tmp_path)
    write(tmp_path, (other, None, None), replace=True)
    run = runs.read_run(tmp_path)
    assert run.source_tokenizer is run.target_tokenizer is None
    assert sorted(os.listdir(tmp_path)) == ["model.keras", "run.json"]
    assert run.model.count_params() == other.count_params()


def test_missing_and_damaged_parts_are_named(pieces, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no run directory .*nowhere"):
        runs.read_run(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="not a run directory.*no run.json"):
        runs.read_run(tmp_path)
    write(tmp_path, pieces)
    settings = (tmp_path / "run.json").read_text()
    for old, new, text in [
        ("}", "", "not valid JSON"),
        ('"schema_version": 1', '"schema_version": 99', "schema_version=99"),
        ('"end": 3', '"end": 4', "special ids"),
        ('"model"', '"modle"', "name the model"),
    ]:
        (tmp_path / "run.json").write_text(settings.replace(old, new))
        with pytest.raises(ValueError, match=text) as caught:
            runs.read_run(tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / "run.json").write_text(settings)

    content = (tmp_path / "model.keras").read_bytes()
    (tmp_path / "model.keras").write_bytes(content[: len(content) // 2])
    run = runs.read_run(tmp_path)
    with pytest.raises(ValueError, match="model.keras cannot be loaded") as caught:
        _ = run.model
    assert "\n" not in str(caught.value)
    (tmp_path / "model.keras").unlink()
    with pytest.raises(FileNotFoundError, match="has no model.keras"):
        runs.read_run(tmp_path)
    (tmp_path / "model.keras").write_bytes(content)
    (tmp_path / "target.tokenizer" / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match="target.tokenizer/vocab.txt"):
        runs.read_run(tmp_path)


def test_tokenizers_must_fit_the_model(pieces, tmp_path):
    model, source, target = pieces
    wide = tokenizers.WordTokenizer(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="source tokenizer has more ids than the encoder's embed"):
        write(tmp_path, (model, wide, target))
    with pytest.raises(ValueError, match="target tokenizer has more ids.*size=8.*logits: 6"):
        write(tmp_path, (model, source, wide))
    assert os.listdir(tmp_path) == []
    # Also when the run is read: somebody may have exchanged the tokenizer.
    write(tmp_path, pieces)
    wide.save(tmp_path / "target.tokenizer")
    with pytest.raises(ValueError, match="target tokenizer has more ids"):
        _ = runs.read_run(tmp_path).model


def test_arguments_are_checked(pieces, tmp_path):
    model, source, target = pieces
    for settings, text in [
        ({"model_options": {}}, "name of the model"),
        ({"model": "toy", "schema_version": 1}, "leave them out.*schema_version"),
        ({"model": "toy", "seed": {1}}, "JSON can hold.*set"),
        ({"model": "toy", "loss": float("nan")}, "JSON can hold"),
    ]:
        with pytest.raises(ValueError, match=text):
            write(tmp_path, pieces, settings)
    with pytest.raises(ValueError, match="expected to be a tokenizer.*Received: str"):
        write(tmp_path, (model, "words", target))
    with pytest.raises(ValueError, match="model of type str"):
        write(tmp_path, ("model", source, target))
    inputs = keras.Input((3,))
    stranger = keras.Model(inputs, keras.layers.Dense(2, name="decoder")(inputs))
    with pytest.raises(ValueError, match="without encoder"):
        write(tmp_path, (stranger, source, target))
    encoded = keras.layers.Dense(2, name="encoder")(inputs)
    stranger = keras.Model(inputs, keras.layers.Dense(2, name="decoder")(encoded))
    with pytest.raises(ValueError, match="Dense without prepare, start, step"):
        write(tmp_path, (stranger, source, target))
    assert os.listdir(tmp_path) == []


@pytest.mark.thorough
def test_a_run_is_read_where_examples_cannot_be_imported(pieces, tmp_path):
    write(tmp_path, pieces)
    program = (
        "import sys\n"
        "sys.modules['examples'] = None  # importing it raises\n"
        "import toy_translator\n"
        "from keras_attention.export import runs\n"
        "run = runs.read_run(sys.argv[1])\n"
        "print(run.settings['model'], run.model.count_params())\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(__file__))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["toy", str(pieces[0].count_params())], done.stderr
