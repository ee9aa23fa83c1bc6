import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.commands.by_run import load_recipe
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

TINY = "--units 7 --no-xla --num-buckets 2 --epochs 2 --epoch-size 24 --batch-size 6".split()
MACHINE = "--memory-size 11 --word-size 5 --size length=1:3".split()


@pytest.fixture(scope="session")
def copy_run(tmp_path_factory):
    """A machine that has seen 48 sequences of up to three vectors. Tests copy it to change it."""
    from command_line import answer

    directory = tmp_path_factory.mktemp("copy") / "run"
    status, out, err = answer("train", "ntm", "--run", directory, *TINY, *MACHINE)
    assert (status, err) == (0, ""), out
    assert "val_bit_error: " in out
    assert "best bits " in out
    return directory


def test_a_run_says_what_it_was_trained_on(copy_run):
    settings = json.loads((copy_run / "run.json").read_text())
    assert settings["training"]["task"] == "copy"
    assert settings["training"]["size"] == ["length=1:3"]
    assert "special_ids" not in settings  # it is no translator
    rows = read_history(copy_run / "history.csv")
    assert [row["steps"] for row in rows] == [4.0, 8.0]
    assert set(rows[0]) >= {"loss", "bits", "val_loss", "val_bits", "val_bit_error"}


def test_evaluate_measures_unseen_sequences_of_any_size(command, copy_run, tmp_path):
    status, out, err = command(
        *("evaluate", copy_run, "--sequences", 40, "--json", tmp_path / "numbers.json"),
        *("--size", "length=5"),
    )
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["length"] == [5, 5]
    assert numbers["sequences"] == 64  # whole batches of 32
    # Hardly trained: the cost of guessing is a bit a bit.
    assert numbers["bits_a_sequence"] == pytest.approx(40, abs=4)
    assert 0.3 < numbers["bit_error"] < 0.6
    assert "bits a sequence" in out


def test_evaluate_compares_with_the_best_predictor(command, tmp_path):
    options = ["--task", "ngrams", "--size", "length=20", "--run", tmp_path / "run"]
    status, _, err = command("train", "lstm", "--layers", 1, *TINY, *options)
    assert (status, err) == (0, "")
    status, out, err = command(
        "evaluate", tmp_path / "run", "--sequences", 32, "--json", tmp_path / "numbers.json"
    )
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["above_optimum"] == pytest.approx(
        numbers["bits_a_sequence"] - numbers["optimum"]
    )
    assert "above optimum" in out


def test_pictures_are_drawn_of_outputs_and_of_the_memory(command, copy_run, tmp_path):
    status, out, err = command("plot", copy_run, "--output-dir", tmp_path)
    assert (status, err) == (0, "")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["memory_1.png", "memory_2.png", "memory_3.png", "memory_4.png", "outputs.png"]
    assert out.count(".png") == 5


def test_a_baseline_has_no_memory_to_draw(command, tmp_path):
    options = ["--layers", 1, "--run", tmp_path / "run", "--size", "length=1:3"]
    assert command("train", "lstm", *TINY, *options)[0] == 0
    status, out, err = command("plot", tmp_path / "run", "--output-dir", tmp_path / "plots")
    assert (status, err) == (0, "")
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["outputs.png"]


def test_the_export_answers_as_the_model_does(command, copy_run, tmp_path):
    status, out, err = command("export", copy_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    recipe = load_recipe(copy_run)
    for batch, time in ((2, 5), (3, 13)):  # other sizes than any it has seen
        inputs = np.random.default_rng(1).integers(0, 2, (batch, time, 9)).astype("float32")
        answers = served(inputs=tf.constant(inputs))
        np.testing.assert_allclose(answers["outputs"], recipe.predict(inputs), atol=1e-6)
        history = recipe.get_history(inputs)
        for name in ("read_weights", "write_weights"):
            np.testing.assert_allclose(answers[name], history[name], atol=1e-6)
    assert command("export", copy_run, tmp_path / "served", "--version", 1)[0] == 1


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_numbers(command, copy_run, tmp_path):
    half = tmp_path / "half"
    options = [*TINY, *MACHINE, "--curriculum", 2]
    assert command("train", "ntm", "--run", half, *options, "--epochs", 1)[0] == 0
    assert command("train", "ntm", "--run", half, "--resume", "--epochs", 2)[0] == 0
    whole = tmp_path / "whole"
    assert command("train", "ntm", "--run", whole, *options)[0] == 0
    rows = [read_history(path / "history.csv") for path in (half, whole)]
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.slow
def test_a_goal_ends_a_run(command, tmp_path):
    run = tmp_path / "run"
    status, out, _ = command("train", "ntm", "--run", run, *TINY, *MACHINE, "--stop-at-metric", 1e6)
    assert status == 0
    assert "(stop_at_metric)" in out
    status, out, _ = command("train", "ntm", "--run", run, "--resume")
    assert (status, "resume it with another --stop-at-metric" in out) == (0, True)


@pytest.mark.slow
def test_all_tasks_and_controllers_train(command, tmp_path):
    sizes = {
        "repeat-copy": ["--size", "length=1:2", "--size", "repeats=1:2"],
        "associative-recall": ["--size", "items=2:3"],
        "priority-sort": [],
    }
    kinds = (["--controller", "feed_forward"], ["--layers", 2], ["--shift", "scalar"])
    for (task, given), kind in zip(sizes.items(), kinds, strict=True):
        run = tmp_path / task
        options = [*TINY, *given, *kind, "--memory-size", 11, "--epochs", 1, "--epoch-size", 6]
        status, out, err = command("train", "ntm", "--task", task, "--run", run, *options)
        assert (status, err) == (0, ""), out
        assert np.isfinite(read_history(run / "history.csv")[0]["val_bits"])


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ("--size length=0:5", 2, "at least 1"),
        ("--size lenght=5", 2, "length=1:9"),
        ("--task priority-sort --size length=3:5", 2, "`outputs` to be at most `length`"),
        ("--size length", 2, "Received: --size length"),
        ("--task sort", 2, "invalid choice: 'sort'"),
        ("--epoch-size 4", 2, "An epoch holds at least one batch"),
        ("--memory-size 2", 1, "at least 3 slots, or a smaller max_shift"),
        ("--read-heads 0", 2, "expected a positive whole number"),
        ("--clip-norm 5", 2, "--clip-norm 5 --clip-value 10"),
        ("--clip-norm -1", 2, "expected a number of at least 0"),
    ],
)
def test_wrong_options_are_told_in_a_line(command, tmp_path, options, status, told):
    found, _, err = command("train", "ntm", "--run", tmp_path / "run", *TINY, *options.split())
    assert found == status
    assert told in err


def test_a_run_of_another_task_is_refused(command, copy_run, tmp_path):
    run = shutil.copytree(copy_run, tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    settings["training"]["task"] = "sort"
    (run / "run.json").write_text(json.dumps(settings))
    status, _, err = command("evaluate", run)
    assert status == 1
    assert "expected to hold task" in err


def test_a_translators_command_refuses_another_run(command, copy_run):
    status, _, err = command("translate", copy_run, "text")
    assert status == 1
    assert "translat" in err


def test_the_machine_comes_back_without_the_examples(copy_run):
    model = keras.saving.load_model(copy_run / "model.keras", compile=False)
    assert model.get_layer("ntm").cell.memory_size == 11
