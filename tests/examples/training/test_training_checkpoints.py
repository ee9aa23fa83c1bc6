import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest

from examples.training.checkpoints import CheckpointError, Checkpoints
from examples.training.history import History, read_history


def groups(value=0.0, size=5):
    return {
        "model": [
            keras.Variable(np.full((size, 3), value, "float32"), name="kernel"),
            keras.Variable(np.full(2, value), dtype="bfloat16", name="half"),
        ],
        "optimizer": [keras.Variable(int(value), dtype="int64", name="iterations")],
    }


def values(variables):
    return [np.asarray(v.numpy(), "float64") for group in variables.values() for v in group]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(values(one), values(other), strict=True))


@pytest.fixture
def messages():
    return []


@pytest.fixture
def store(tmp_path, messages):
    return Checkpoints(tmp_path / "checkpoints", keep=2, report=messages.append)


def test_restore_returns_the_newest_record_and_every_value(store):
    for value in (1.0, 2.0):
        store.write(groups(value), {"epoch": int(value), "loss": value / 3})
    variables = groups()
    assert store.restore(variables) == {"epoch": 2, "loss": 2 / 3, "weights": []}
    assert same(variables, groups(2.0))


def test_nothing_to_restore_is_none(store):
    assert store.restore(groups()) is None


def test_last_checkpoints_are_kept_with_the_weights_they_refer_to(store):
    best = store.write_weights([np.float32([1.5])])
    store.write(groups(1.0), {}, [best])
    unused = store.write_weights([np.float32([2.5])])
    store.write(groups(2.0), {}, [best])
    assert store.names("weights") == [best]
    assert unused not in store.names("weights")
    newer = store.write_weights([np.float32([3.5])])
    for _ in range(2):
        store.write(groups(3.0), {}, [newer])
    assert len(store.names()) == 2
    assert store.names("weights") == [newer]
    np.testing.assert_array_equal(store.read_weights(newer)[0], [3.5])


def damage_arrays(path):
    content = bytearray((path / "variables.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (path / "variables.npz").write_bytes(content)


def truncate_arrays(path):
    content = (path / "variables.npz").read_bytes()
    (path / "variables.npz").write_bytes(content[: len(content) // 2])


def change_record(path):
    record = json.loads((path / "checkpoint.json").read_text())
    record["record"]["epoch"] = 7
    (path / "checkpoint.json").write_text(json.dumps(record))


def truncate_record(path):
    (path / "checkpoint.json").write_text((path / "checkpoint.json").read_text()[:40])


def remove_arrays(path):
    (path / "variables.npz").unlink()


DAMAGES = [damage_arrays, truncate_arrays, change_record, truncate_record, remove_arrays]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoint_is_named_and_the_one_before_taken(store, messages, damage):
    store.write(groups(1.0), {"epoch": 1})
    newest = store.write(groups(2.0), {"epoch": 2})
    damage(store.directory / newest)
    variables = groups()
    assert store.restore(variables)["epoch"] == 1
    assert same(variables, groups(1.0))
    assert len(messages) == 1
    assert newest in messages[0] and "damaged" in messages[0]


def test_missing_weights_damage_the_checkpoint_that_needs_them(store, messages):
    store.write(groups(1.0), {"epoch": 1})
    weights = store.write_weights([np.zeros(2)])
    store.write(groups(2.0), {"epoch": 2}, [weights])
    shutil.rmtree(store.directory / weights)
    assert store.restore(groups())["epoch"] == 1
    assert weights in messages[0]


def test_only_damaged_checkpoints_are_an_error(store):
    name = store.write(groups(1.0), {})
    damage_arrays(store.directory / name)
    variables = groups(4.0)
    with pytest.raises(CheckpointError, match=f"None of the checkpoints.*Received: {name}"):
        store.restore(variables)
    assert same(variables, groups(4.0))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (lambda: groups(size=7), r"`kernel` is float32 \(7, 3\) and was float32 \(5, 3\)"),
        (lambda: {**groups(), "optimizer": []}, r"\(optimizer\): 0 variables and 1 saved"),
    ],
)
def test_another_model_is_refused_and_left_untouched(store, wanted, text):
    store.write(groups(1.0), {})
    variables = wanted()
    before = values(variables)
    with pytest.raises(CheckpointError, match=text):
        store.restore(variables)
    assert all(np.array_equal(a, b) for a, b in zip(values(variables), before, strict=True))


@pytest.mark.parametrize("call", range(1, 8))
def test_full_disk_at_any_write_loses_nothing(store, monkeypatch, call):
    store.write(groups(1.0), {"epoch": 1})
    count = 0

    def failing(real):
        def function(*args, **kwargs):
            nonlocal count
            count += 1
            if count == call:
                raise OSError(28, "No space left on device")
            return real(*args, **kwargs)

        return function

    # A checkpoint is two files written and synced, two directories synced and a rename.
    monkeypatch.setattr(pathlib.Path, "write_bytes", failing(pathlib.Path.write_bytes))
    monkeypatch.setattr(os, "rename", failing(os.rename))
    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    with pytest.raises(OSError, match="No space left"):
        store.write(groups(2.0), {"epoch": 2})
    monkeypatch.undo()
    again = Checkpoints(store.directory, keep=2)
    variables = groups()
    epoch = again.restore(variables)["epoch"]
    # Whole either way: only a failure after the rename leaves the new one.
    assert same(variables, groups(float(epoch)))
    assert not list(store.directory.glob(".*"))
    again.write(groups(3.0), {"epoch": 3})
    assert again.restore(groups())["epoch"] == 3


def test_a_killed_write_leaves_only_what_the_next_start_removes(store, monkeypatch):
    store.write(groups(1.0), {"epoch": 1})
    # As after SIGKILL: the half-written directory stays.
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
    monkeypatch.setattr(os, "rename", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.write(groups(2.0), {"epoch": 2})
    monkeypatch.undo()
    assert list(store.directory.glob(".*.part"))
    again = Checkpoints(store.directory)
    assert not list(store.directory.glob(".*.part"))
    assert again.restore(groups())["epoch"] == 1


def test_history_is_written_whole_and_cut_back_to_a_checkpoint(tmp_path):
    history = History(tmp_path / "history.csv")
    rows = [{"epoch": i, "loss": 1 / (i + 3)} for i in range(4)]
    for row in rows:
        history.append(row)
    assert read_history(history.path) == rows
    again = History(history.path)
    again.restore(rows[:2])
    assert read_history(history.path) == rows[:2]
    again.append({"epoch": 2, "loss": 0.5, "bleu": 30.25})
    assert read_history(history.path) == [*rows[:2], {"epoch": 2, "loss": 0.5, "bleu": 30.25}]


def test_a_failing_history_write_keeps_the_old_file(tmp_path, monkeypatch):
    history = History(tmp_path / "history.csv")
    history.append({"epoch": 1})
    before = history.path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        history.append({"epoch": 2})
    monkeypatch.undo()
    assert history.path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["history.csv"]
    history.write()
    assert [row["epoch"] for row in read_history(history.path)] == [1, 2]
