"""A `fit` that is interrupted and started again ends as one that is not interrupted."""

import functools
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from callbacks import training
from callbacks.training import BATCHES, EPOCHS, Stop, StopAt, make_data, make_model, read_variables

from keras_attention.callbacks import BackupAndRestore
from keras_attention.callbacks._backup_file import read_backup
from keras_attention.data import ResumableArrays

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ["arrays", "dataset"] if keras.backend.backend() == "tensorflow" else ["arrays"]


class Trainer:
    """A model that is compiled once and put back to its beginning before each training."""

    def __init__(self):
        self.model = make_model()
        self.initial_values = read_variables(self.model)

    def reset(self, values=None):
        optimizer = self.model.optimizer
        variables = (*self.model.variables, *optimizer.variables)
        for variable, value in zip(variables, values or self.initial_values, strict=True):
            variable.assign(value)

    def train(self, *arguments, **options):
        self.reset()
        return training.train(*arguments, model=self.model, **options)

    def resume(self, *arguments, **options):
        """Trains after changing every variable, as another process would have them."""
        self.reset([value + np.ones_like(value) for value in self.initial_values])
        return training.train(*arguments, model=self.model, **options)


@pytest.fixture(scope="module")
def trainer():
    return Trainer()


@pytest.fixture(scope="module")
def train_at_once(trainer, tmp_path_factory):
    """Returns a function: the kind of the data -> the variables and the history."""
    return functools.cache(lambda kind: trainer.train(tmp_path_factory.mktemp(kind), kind))


def assert_same(found, expected):
    assert found[1] == expected[1]
    for one, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(one, other)


#: Batches at the edges and in the middle of epochs, a validation, the ends of epochs.
STOPS = [
    (2, "batch_begin"),
    (BATCHES, "batch_end"),
    (BATCHES + 1, "batch_begin"),
    (2 * BATCHES - 1, "batch_end"),
    (2, "validation"),
    (1, "epoch_end"),
    (EPOCHS * BATCHES, "batch_end"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("kind, step, where", [(k, *stop) for k in KINDS for stop in STOPS])
def test_a_resumed_fit_ends_with_the_same_bits(
    kind, step, where, trainer, train_at_once, tmp_path, recwarn
):
    with pytest.raises(Stop):
        trainer.train(tmp_path, kind, [StopAt(step, where)])
    assert_same(trainer.resume(tmp_path, kind), train_at_once(kind))
    assert [str(one.message) for one in recwarn if "ran out of data" in str(one.message)] == []


@pytest.mark.thorough
def test_a_model_made_anew_ends_with_the_same_bits(train_at_once, trainer, tmp_path):
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(7)])
    assert_same(training.train(tmp_path), train_at_once("arrays"))


@pytest.mark.thorough
def test_a_training_may_be_interrupted_often(trainer, train_at_once, tmp_path):
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(4)])
    for _ in range(3):
        with pytest.raises(Stop):
            trainer.resume(tmp_path, callbacks=[StopAt(4)])
    assert_same(trainer.resume(tmp_path), train_at_once("arrays"))


@pytest.mark.parametrize("save_freq", ["epoch", 2, 7])
def test_backups_may_be_rarer_than_batches(save_freq, trainer, train_at_once, tmp_path):
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(BATCHES + 4)], save_freq=save_freq)
    found = trainer.resume(tmp_path, save_freq=save_freq)
    assert_same(found, train_at_once("arrays"))


@pytest.mark.thorough
def test_a_backup_may_be_due_by_time(trainer, train_at_once, tmp_path):
    options = {"save_freq": "epoch", "save_seconds": 0.0}
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(BATCHES + 4)], **options)
    record, _ = read_backup(tmp_path / "training.backup")
    assert (record["epoch"], record["batch"]) == (1, 3)
    assert_same(trainer.resume(tmp_path, **options), train_at_once("arrays"))
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(BATCHES + 4)], **{**options, "save_seconds": 1e6})
    record, _ = read_backup(tmp_path / "training.backup")
    assert (record["epoch"], record["batch"]) == (1, 0)


def test_a_worker_may_restore_without_writing(trainer, train_at_once, tmp_path):
    with pytest.raises(Stop):
        trainer.train(tmp_path, callbacks=[StopAt(BATCHES + 4)])
    before = (tmp_path / "training.backup").read_bytes()
    assert_same(trainer.resume(tmp_path, save_freq=None), train_at_once("arrays"))
    assert (tmp_path / "training.backup").read_bytes() == before


def test_without_data_the_end_of_the_last_epoch_is_resumed(trainer, tmp_path):
    """With an order that does not change; `fit` shuffles nothing here."""

    def fit(directory, callbacks=()):
        backup = BackupAndRestore(directory)
        trainer.model.fit(
            training.X,
            training.Y,
            batch_size=7,
            epochs=3,
            shuffle=False,
            verbose=0,
            callbacks=[*callbacks, backup],
        )
        return read_variables(trainer.model)

    trainer.reset()
    expected = fit(tmp_path / "uninterrupted")
    trainer.reset()
    with pytest.raises(Stop):
        fit(tmp_path / "stopped", [StopAt(BATCHES + 3)])
    trainer.reset([value + np.ones_like(value) for value in trainer.initial_values])
    for one, other in zip(fit(tmp_path / "stopped"), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_backup_is_deleted_when_fit_ends(trainer, tmp_path):
    trainer.train(tmp_path / "backup", epochs=1)
    assert not (tmp_path / "backup").exists()
    assert trainer.model._initial_epoch is None


def test_a_backup_that_is_kept_goes_on_with_more_epochs(trainer, train_at_once, tmp_path):
    trainer.train(tmp_path, epochs=2, delete_checkpoint=False)
    kept = trainer.resume(tmp_path, delete_checkpoint=False)
    assert_same(kept, train_at_once("arrays"))
    assert_same(trainer.resume(tmp_path, delete_checkpoint=False), kept)  # trains no more


def test_keras_callbacks_beside_it_behave(trainer, train_at_once, tmp_path):
    def make_callbacks():
        return [
            keras.callbacks.ModelCheckpoint(
                tmp_path / "{epoch}.weights.h5", save_weights_only=True
            ),
            keras.callbacks.CSVLogger(tmp_path / "log.csv", append=True),
            keras.callbacks.EarlyStopping("val_loss", patience=EPOCHS),
        ]

    with pytest.raises(Stop):
        trainer.train(tmp_path / "backup", callbacks=[*make_callbacks(), StopAt(BATCHES + 3)])
    found = trainer.resume(tmp_path / "backup", callbacks=make_callbacks())
    assert_same(found, train_at_once("arrays"))
    assert len(list(tmp_path.glob("*.weights.h5"))) == EPOCHS
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", *map(str, range(EPOCHS))]


class Score(keras.callbacks.Callback):
    """Gives epochs a score, of which the second is the lowest."""

    def on_epoch_end(self, epoch, logs=None):
        logs["score"] = [3.0, 1.0, 2.0, 1.5, 2.5][epoch]


def test_callbacks_that_are_named_count_on(trainer, tmp_path):
    def run(train, directory, stop=()):
        named = [
            keras.callbacks.EarlyStopping("score", patience=3, mode="min"),
            keras.callbacks.ReduceLROnPlateau("score", patience=9, mode="min"),
            keras.callbacks.ModelCheckpoint(
                tmp_path / directory / "{epoch}.weights.h5",
                "score",
                mode="min",
                save_best_only=True,
                save_weights_only=True,
            ),
        ]
        backup = tmp_path / directory / "backup"
        score = Score()
        found = train(backup, callbacks=[score, *named, *stop], epochs=5, named=named)
        saved = sorted(path.name for path in (tmp_path / directory).glob("*.h5"))
        return found, saved, [one.wait for one in named[:2]]

    whole, saved, waits = run(trainer.train, "whole")
    assert (len(whole[1]["epoch"]), saved, waits) == (5, ["1.weights.h5", "2.weights.h5"], [3, 3])
    with pytest.raises(Stop):
        run(trainer.train, "parts", [StopAt(3 * BATCHES + 2)])
    found, *rest = run(trainer.resume, "parts")
    assert_same(found, whole)
    assert rest == [saved, waits]
    with pytest.raises(Stop):
        trainer.train(tmp_path / "other" / "backup", callbacks=[StopAt(3)])
    with pytest.raises(ValueError, match="callbacks"):
        run(trainer.resume, "other")


class StopPolitely(keras.callbacks.Callback):
    """Asks `fit` to stop after update number `step`, as a time limit does."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step:
            self.model.stop_training = True


@pytest.mark.parametrize("save_freq", ["epoch", 2])
@pytest.mark.parametrize("step", [BATCHES + 3, 2 * BATCHES])
def test_a_fit_that_is_stopped_inside_an_epoch_goes_on_there(
    save_freq, step, trainer, train_at_once, tmp_path
):
    options = {"save_freq": save_freq, "delete_checkpoint": False}
    _, history = trainer.train(tmp_path, callbacks=[StopPolitely(step)], **options)
    assert history["epoch"] == [0, 1]
    assert_same(trainer.resume(tmp_path, **options), train_at_once("arrays"))


def test_a_backup_of_a_fit_stopped_inside_an_epoch_is_not_deleted(trainer, train_at_once, tmp_path):
    trainer.train(tmp_path / "backup", callbacks=[StopPolitely(BATCHES + 3)])
    assert_same(trainer.resume(tmp_path / "backup"), train_at_once("arrays"))
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("step", [BATCHES + 3, 2 * BATCHES])
def test_a_loss_of_nan_replaces_no_backup(step, trainer, tmp_path):
    class Spoil(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == step - 1:
                self.model.layers[1].bias.assign(np.full(11, np.nan))

    stop = [Spoil(), keras.callbacks.TerminateOnNaN()]
    trainer.train(tmp_path, callbacks=stop, save_freq="epoch", delete_checkpoint=False)
    record, arrays = read_backup(tmp_path / "training.backup")
    assert (record["epoch"], record["batch"]) == (1, 0)
    assert all(np.isfinite(array).all() for array in arrays["model"])


def test_steps_per_execution_may_leave_a_rest(tmp_path):
    def fit(epochs):
        keras.utils.set_random_seed(2)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        data = ResumableArrays(training.X[:10, :2], training.X[:10, 0], batch_size=2)
        backup = BackupAndRestore(tmp_path, data, delete_checkpoint=False)
        model.fit(data.dataset, epochs=epochs, shuffle=False, verbose=0, callbacks=[backup])
        return int(model.optimizer.iterations)

    assert [fit(1), fit(2)] == [5, 10]


def test_a_callback_may_have_changed_the_learning_rate(tmp_path):
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    rate = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)

    def fit(epochs):
        data = ResumableArrays(training.X[:, :2], training.X[:, 0], batch_size=7)
        backup = BackupAndRestore(tmp_path, data, np.int64(2), delete_checkpoint=False)
        model.fit(data.dataset, epochs=epochs, shuffle=False, verbose=0, callbacks=[rate, backup])
        return float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))

    assert [fit(1), fit(3)] == pytest.approx([0.005, 0.00125])
    model.compile(keras.optimizers.SGD(0.02), "mse")
    with pytest.raises(ValueError, match=r"optimizer.learning_rate=0.0[12].*in the backup 0.0[01]"):
        fit(4)


@pytest.mark.thorough
def test_early_stopping_ends_a_resumed_epoch(trainer, tmp_path):
    stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=100.0)
    with pytest.raises(Stop):
        trainer.train(tmp_path / "backup", callbacks=[StopAt(3)])
    _, history = trainer.resume(tmp_path / "backup", callbacks=[stop])
    assert history["epoch"] == [0, 1]
    assert not (tmp_path / "backup").exists()


@pytest.fixture(scope="module")
def backup_path(trainer, tmp_path_factory):
    """The backup of a training that was stopped in its second epoch."""
    directory = tmp_path_factory.mktemp("interrupted")
    with pytest.raises(Stop):
        trainer.train(directory, callbacks=[StopAt(BATCHES + 3)])
    return directory / "training.backup"


CHANGES = {
    "units": ({"units": 13}, {}, r"model\.0='dense/kernel float32 \[5,13\]', in the backup .*5,11"),
    "optimizer": ({"optimizer": "Nadam"}, {}, "optimizer.class_name='Nadam', .* 'Adam'"),
    "policy": (
        {"policy": "float32"},
        {},
        "dtype_policy.2='Dense float32', .*'Dense mixed_bfloat16'",
    ),
    "learning_rate": ({"learning_rate": 0.03}, {}, "initial_learning_rate=0.03, .* 0.02"),
    "seed": ({}, {"seed": 5}, "data.seed=5, in the backup 3"),
    "batch_size": ({}, {"batch_size": 5}, "data.batch_size=5, in the backup 7"),
    "examples": ({}, {"examples": 29}, "data.examples=29, in the backup 31"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_training_is_refused(name, backup_path, trainer, tmp_path):
    model_options, data_options, message = CHANGES[name]
    model = make_model(**model_options) if model_options else trainer.model
    trainer.reset()
    before, content = read_variables(model), backup_path.read_bytes()
    with pytest.raises(ValueError, match=message):
        training.train(backup_path.parent, model=model, data=make_data("arrays", **data_options))
    assert backup_path.read_bytes() == content
    for one, other in zip(read_variables(model), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_backup_is_refused(backup_path, trainer, tmp_path):
    content = backup_path.read_bytes()
    path = tmp_path / backup_path.name
    for place in range(0, len(content), 997):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed if place else b"")
        with pytest.raises(ValueError, match="is damaged. Delete it to train"):
            trainer.train(tmp_path)


@pytest.mark.thorough
def test_a_backup_that_fails_leaves_the_former(trainer, train_at_once, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space")

    full_disk = StopAt(4, "batch_end", lambda: monkeypatch.setattr("os.fsync", fail))
    with pytest.raises(OSError, match="no space"):
        trainer.train(tmp_path, callbacks=[full_disk])
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["training.backup"]
    assert_same(trainer.resume(tmp_path), train_at_once("arrays"))


def test_an_epoch_that_ends_early_is_refused(trainer, tmp_path):
    """With as many steps as batches, `fit` reads all epochs from one iterator."""
    data = make_data("arrays")

    def fit(*callbacks):
        backup = BackupAndRestore(tmp_path, data, save_freq=1)
        options = {"shuffle": False, "verbose": 0, "steps_per_epoch": BATCHES, "epochs": EPOCHS}
        trainer.model.fit(data.dataset, callbacks=[*callbacks, backup], **options)

    trainer.reset()
    with pytest.raises(Stop):
        fit(StopAt(3))
    if keras.backend.backend() == "tensorflow":
        with pytest.raises(ValueError, match="no `steps_per_epoch`.* 0 batches in an epoch"):
            fit()


def test_other_data_of_fit_is_refused(trainer, tmp_path):
    data = make_data("arrays")
    with pytest.raises(ValueError, match="Received: 3 batches in an epoch of `fit`, 5 in `data`"):
        trainer.model.fit(
            data.dataset,
            steps_per_epoch=3,
            shuffle=False,
            callbacks=[BackupAndRestore(tmp_path, data)],
            verbose=0,
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_killed_processes_end_with_the_same_bits(kind, tmp_path):
    command = [sys.executable, "-m", "callbacks.kill", str(tmp_path), kind]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 20


def test_arguments_are_checked(tmp_path):
    data = ResumableArrays(training.X)
    with pytest.raises(ValueError, match="expects `data` to be a ResumableArrays"):
        BackupAndRestore(tmp_path, data.dataset)
    with pytest.raises(ValueError, match='`save_freq` to be a positive int. Or pass "epoch"'):
        BackupAndRestore(tmp_path, data, save_freq=0)
    with pytest.raises(ValueError, match="needs `data` for a backup inside an epoch"):
        BackupAndRestore(tmp_path, save_freq=3)
    with pytest.raises(ValueError, match="Received: save_freq=epoch, save_seconds=9, data=None"):
        BackupAndRestore(tmp_path, save_seconds=9)
    with pytest.raises(ValueError, match="save_seconds"):
        BackupAndRestore(tmp_path, data, save_seconds=-1)
    stop = keras.callbacks.EarlyStopping(restore_best_weights=True)
    with pytest.raises(ValueError, match="Received: EarlyStopping.restore_best_weights=True"):
        BackupAndRestore(tmp_path, data, callbacks=[stop])


def test_a_model_that_is_not_built_is_refused(tmp_path):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse", run_eagerly=True)
    if keras.backend.backend() == "tensorflow":  # elsewhere `fit` has built it
        with pytest.raises(ValueError, match="expects a model that is built"):
            model.fit(training.X, training.Y, callbacks=[BackupAndRestore(tmp_path)], verbose=0)
