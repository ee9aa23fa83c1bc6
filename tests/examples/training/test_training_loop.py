import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import training_toys as toys

from examples.training import averaging, loop, schedules
from examples.training.checkpoints import CheckpointError, Checkpoints
from examples.training.history import read_history
from examples.training.objectives import TokenObjective
from examples.training.settings import Metric, TrainingDiverged, TrainingSettings

TIMES = ("seconds", "tokens_per_second")
ROOT = pathlib.Path(__file__).parents[3]


def settings(**changes):
    defaults = {
        "epochs": 3,
        "checkpoint_seconds": None,
        "jit_compile": False,
        "log_steps": 3,
    }
    return TrainingSettings(**{**defaults, **changes})


def run(directory, changes=None, **options):
    """Trains the toy; returns model, result and progress."""
    model = options.pop("model", None) or toys.model()
    progress = toys.Quiet()
    options.setdefault("optimizer", keras.optimizers.Adam(0.01))
    options.setdefault("objective", TokenObjective(smoothing=0.1))
    batches = options.pop("batches", None) or toys.Batches(shapes=1)
    result = loop.train(
        model,
        batches,
        options.pop("dev_batches", toys.dev_batches(1)),
        settings(**(changes or {})),
        directory,
        progress=progress,
        **options,
    )
    return model, result, progress


def without_times(rows):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def read_position(store, name):
    record = json.loads((store.directory / name / "checkpoint.json").read_text())
    return record["record"]["position"]


def assert_same(one, other):
    """Two runs have the same history and weights, to the bit."""
    assert without_times(one[1].history) == without_times(other[1].history)
    for a, b in zip(one[0].weights, other[0].weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


class Stopping(toys.Batches):
    """Raises the signal after so many batches, as Ctrl-C or a scheduler would."""

    def __init__(self, after, number):
        super().__init__(shapes=1)
        self.after, self.number = after, number

    def epoch(self, epoch, start=0):
        for batch in super().epoch(epoch, start):
            self.after -= 1
            if self.after == 0:
                os.kill(os.getpid(), self.number)
            yield batch


def test_training_learns_and_writes_what_it_says(tmp_path):
    saved = []
    model, result, progress = run(
        tmp_path,
        {"epochs": 4},
        batches=toys.Batches(),
        save=lambda m: saved.append(m.weights[0].numpy()),
    )
    rows = read_history(tmp_path / "history.csv")
    assert rows == [{k: float(v) for k, v in row.items()} for row in result.history]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert [row["steps"] for row in rows] == [8, 16, 24, 32]
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert rows[-1]["tokens"] == sum(np.sum(labels != 0) for _, labels in toys.Batches().all)
    np.testing.assert_allclose(rows[-1]["dev_perplexity"], np.exp(rows[-1]["dev_loss"]))
    assert (result.reason, result.steps) == ("epochs", 32)
    np.testing.assert_array_equal(saved[-1], model.weights[0].numpy())
    assert any("3 new batch shapes (3 in all)" in message for message in progress.messages)
    assert progress.updates


def test_dev_numbers_are_those_of_the_model_it_leaves(tmp_path):
    model, result, _ = run(tmp_path, dev_batches=toys.dev_batches(2))
    total = count = right = 0.0
    for inputs, labels in toys.dev_batches():
        logits = model(inputs).numpy().astype("float64")
        log_probs = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
        kept = labels.numpy() != 0
        total -= np.take_along_axis(log_probs, labels.numpy()[..., None], -1)[..., 0][kept].sum()
        right += (logits.argmax(-1) == labels.numpy())[kept].sum()
        count += kept.sum()
    row = result.history[result.best_epoch - 1]

    measured = (row["dev_loss"], row["dev_accuracy"])
    np.testing.assert_allclose(measured, (total / count, right / count), rtol=1e-5)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The run that the resumed ones must repeat, with a checkpoint after every step."""
    directory = tmp_path_factory.mktemp("whole")
    changes = {"checkpoint_steps": 1, "keep_checkpoints": 100}
    average = averaging.ExponentialAverage(0.9)
    return directory, run(directory, changes, average=average)


@pytest.mark.parametrize("steps", [1, 8, 13])
def test_resuming_at_any_step_repeats_the_run(tmp_path, uninterrupted, steps):
    whole, expected = uninterrupted
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    store = Checkpoints(tmp_path / "checkpoints")
    for name in store.names():
        if read_position(store, name)["steps"] > steps:
            shutil.rmtree(tmp_path / "checkpoints" / name)
    resumed = run(
        tmp_path, model=toys.model(seed=3), average=averaging.ExponentialAverage(0.9), resume=True
    )
    assert resumed[2].messages[0].endswith(f"step {steps}.")
    assert_same(resumed, expected)
    assert without_times(read_history(tmp_path / "history.csv")) == without_times(
        read_history(whole / "history.csv")
    )


CHILD = """
import sys, time
sys.path[:0] = sys.argv[1:3]
import training_toys as toys, test_training_loop as tests
class Slow(toys.Batches):
    def epoch(self, epoch, start=0):
        for batch in super().epoch(epoch, start):
            time.sleep(0.05)
            yield batch
changes = {"epochs": 40, "checkpoint_steps": 5, "jit_compile": True}
tests.run(sys.argv[3], changes, batches=Slow(shapes=1))
"""


@pytest.mark.thorough
def test_a_run_killed_with_sigkill_resumes_to_the_same_numbers(tmp_path):
    changes = {"epochs": 5, "checkpoint_steps": 5, "jit_compile": True}
    expected = run(tmp_path / "whole", changes)
    here = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", CHILD, here, str(ROOT), str(tmp_path / "killed")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    history = tmp_path / "killed" / "history.csv"
    deadline = time.monotonic() + 120
    while not history.exists() or len(history.read_text().splitlines()) < 3:
        assert child.poll() is None, child.stderr.read().decode()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(np.random.default_rng().uniform(0, 0.5))  # any moment will do
    child.send_signal(signal.SIGKILL)
    child.wait()
    resumed = run(tmp_path / "killed", changes, model=toys.model(seed=3), resume=True)
    assert resumed[2].messages[0].startswith("Resumed at epoch")
    assert_same(resumed, expected)


@pytest.mark.thorough
def test_an_interrupt_writes_a_checkpoint_and_says_how_to_go_on(tmp_path, uninterrupted):
    average = averaging.ExponentialAverage(0.9)
    model, result, progress = run(tmp_path, batches=Stopping(11, signal.SIGTERM), average=average)
    assert (result.reason, result.steps) == ("interrupted", 11)
    assert "--resume" in progress.messages[-1]
    resumed = run(
        tmp_path, model=toys.model(seed=3), average=averaging.ExponentialAverage(0.9), resume=True
    )
    assert_same(resumed, uninterrupted[1])


def test_an_interrupt_during_evaluation_repeats_the_evaluation(tmp_path):
    def interrupt(model):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        return 0.0

    names = {"epochs": 2}
    calm = [Metric("answer", lambda model: float(model.weights[0].numpy().sum()))]
    expected = run(tmp_path / "whole", names, metrics=calm)
    _, result, _ = run(tmp_path / "cut", names, metrics=[Metric("answer", interrupt)])
    assert (result.reason, result.steps, result.history) == ("interrupted", 8, [])
    resumed = run(tmp_path / "cut", names, metrics=calm, model=toys.model(seed=3), resume=True)
    assert_same(resumed, expected)


def test_snapshots_best_weights_and_plateau_survive_a_resume(tmp_path):
    def options():
        return {
            "average": averaging.SnapshotAverage(3),
            "plateau": schedules.ReduceOnPlateau(0.5, patience=2),
            "metrics": [Metric("size", size, larger_is_better=False)],
        }

    def size(model):  # grows, so that only the first epoch improves
        return float(sum(np.abs(v.numpy()).sum() for v in model.trainable_variables))

    changes = {"epochs": 6, "monitor": "size"}
    expected = run(tmp_path / "whole", changes, **options())
    rates = [row["learning_rate"] for row in expected[1].history]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.01, 0.005, 0.005, 0.0025])
    run(tmp_path / "cut", changes, batches=Stopping(35, signal.SIGINT), **options())
    resumed = run(tmp_path / "cut", changes, model=toys.model(seed=3), resume=True, **options())
    assert_same(resumed, expected)
    assert (resumed[1].best, resumed[1].best_epoch) == (expected[1].best, 1)


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (averaging.SnapshotAverage, {"count": 3}, "without what is averaged.*5 arrays, expected 7"),
        (averaging.ExponentialAverage, {"decay": 0.9}, r"\(step\): `moving_mean_average` is"),
    ],
)
def test_averages_without_statistics_of_batch_normalization_are_not_resumed(
    tmp_path, kind, options, text
):
    class Earlier(kind):
        followed = property(lambda self: self.model.trainable_variables)

    model = toys.normalized_model()
    run(tmp_path, {"epochs": 2}, model=model, average=Earlier(**options))
    before = [v.numpy() for v in model.weights]
    with pytest.raises(CheckpointError, match=text):
        run(tmp_path, model=model, average=kind(**options), resume=True)
    for variable, array in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), array)


def test_early_stopping_keeps_the_best_weights(tmp_path):
    # The metric is best after the second epoch, whatever the model does.
    values = iter([0.2, 0.7, 0.6, 0.5, 0.9])
    kept = []

    def compute(model):
        kept.append([v.numpy() for v in model.weights])
        return next(values)

    changes = {"epochs": 5, "patience": 2, "monitor": "match"}
    model, result, _ = run(tmp_path, changes, metrics=[Metric("match", compute)])
    assert (result.reason, result.best, result.best_epoch) == ("patience", 0.7, 2)
    assert len(result.history) == 4
    for variable, array in zip(model.weights, kept[1], strict=True):
        np.testing.assert_array_equal(variable.numpy(), array)
    # Nothing is left to do for a run that has ended; it answers the same.
    again, repeated, _ = run(
        tmp_path, changes, metrics=[Metric("match", compute)], model=toys.model(seed=3), resume=True
    )
    assert (repeated.best, repeated.steps) == (0.7, result.steps)
    for variable, array in zip(again.weights, kept[1], strict=True):
        np.testing.assert_array_equal(variable.numpy(), array)


def test_a_time_budget_ends_in_the_middle_and_more_time_goes_on_from_there(tmp_path, monkeypatch):
    changes = {"epochs": 2}
    expected = run(tmp_path / "whole", changes)
    clock = [0.0]
    time = types.SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr("examples.training.run.time", time)

    class Ticking(toys.Batches):
        def epoch(self, epoch, start=0):
            for batch in super().epoch(epoch, start):
                clock[0] += 10.0
                yield batch

    _, result, _ = run(tmp_path / "cut", {**changes, "minutes": 0.9}, batches=Ticking(shapes=1))
    assert (result.reason, result.steps, len(result.history)) == ("minutes", 6, 1)
    # The same budget again is used up already: the same answer.
    _, again, _ = run(
        tmp_path / "cut", {**changes, "minutes": 0.9}, batches=Ticking(shapes=1), resume=True
    )
    assert (again.reason, again.steps) == ("minutes", 6)
    assert without_times(again.history) == without_times(result.history)
    resumed = run(
        tmp_path / "cut",
        {**changes, "minutes": 90.0},
        batches=Ticking(shapes=1),
        model=toys.model(seed=3),
        resume=True,
    )
    assert_same(resumed, expected)


def test_divergence_stops_the_run_and_leaves_the_last_checkpoint(tmp_path):
    optimizer = keras.optimizers.SGD(1e38)  # products of such weights overflow
    changes = {"clip_norm": None, "checkpoint_steps": 1}
    with pytest.raises(TrainingDiverged, match=r"diverged at step \d+ \(epoch 1\).*Lower the"):
        run(tmp_path, changes, optimizer=optimizer)
    store = Checkpoints(tmp_path / "checkpoints")
    for name in store.names():
        position = read_position(store, name)
        assert np.isfinite(position["loss_sum"])


def test_a_full_disk_is_reported_and_training_goes_on(tmp_path, monkeypatch):
    real, failed = Checkpoints.write, []

    def write(self, *args, **kwargs):
        if len(failed) < 2:
            failed.append(True)
            raise OSError(28, "No space left on device")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Checkpoints, "write", write)
    _, result, progress = run(tmp_path, {"epochs": 1, "checkpoint_steps": 2})
    assert result.steps == 8
    reports = [m for m in progress.messages if "Could not write a checkpoint" in m]
    assert len(reports) == 2 and "No space left" in reports[0]


def test_a_checkpoint_that_cannot_be_written_at_the_end_is_an_error(tmp_path, monkeypatch):
    def write(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "write", write)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path, {"epochs": 1})


def test_tensorboard_gets_the_scalars(tmp_path):
    run(tmp_path, {"epochs": 1, "tensorboard": True})
    tags = set()
    for path in (tmp_path / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags.update(value.tag for value in event.summary.value)
    assert {"train_loss", "gradient_norm", "learning_rate", "dev_loss", "dev_accuracy"} <= tags


def test_an_earlier_run_is_not_overwritten(tmp_path):
    run(tmp_path, {"epochs": 1})
    with pytest.raises(ValueError, match="without checkpoints of an earlier run.*--resume"):
        run(tmp_path, {"epochs": 1})


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    run(tmp_path, {"epochs": 1})
    with pytest.raises(CheckpointError, match="shuffle_seed=6, the checkpoint has 5"):
        run(tmp_path, batches=toys.Batches(seed=6, shapes=1), resume=True)
    with pytest.raises(CheckpointError, match="batches_in_epoch=9, the checkpoint has 8"):
        run(tmp_path, batches=toys.Batches(count=9, shapes=1), resume=True)


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        ({"monitor": "bleu"}, {}, "`monitor` to be one of 'loss', 'accuracy'.*monitor='bleu'"),
        ({}, {"batches": toys.Batches(count=0)}, "at least one batch an epoch"),
        ({}, {"dev_batches": []}, "at least one batch to evaluate on"),
        (
            {},
            {
                "plateau": schedules.ReduceOnPlateau(),
                "optimizer": keras.optimizers.Adam(schedules.NoamSchedule(8)),
            },
            "plain learning rate.*learning_rate=NoamSchedule",
        ),
    ],
)
def test_errors_come_before_the_training(tmp_path, changes, options, text):
    with pytest.raises(ValueError, match=text):
        run(tmp_path, changes, **options)


@pytest.mark.parametrize(
    ("field", "value"),
    [("epochs", 0), ("patience", 0), ("minutes", -1), ("clip_norm", 0), ("clip_value", 0)],
)
def test_settings_name_the_field(field, value):
    with pytest.raises(ValueError, match=f"TrainingSettings expects `{field}`.*Received: {field}="):
        TrainingSettings(**{field: value})
