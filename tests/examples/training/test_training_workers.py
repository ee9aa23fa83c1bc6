import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from kill_workers import Killer
from worker_processes import ROOT, TRANSLATION, Started, make_config, read_history

from examples.training import workers
from examples.training.cluster import ClusterError, read_cluster
from keras_attention.export.runs import read_run

ALGORITHM = (
    *("ntm", "--task", "copy", "--size", "length=3", "--batch-size", "4", "--epoch-size", "12"),
    *("--num-buckets", "1", "--no-xla"),
)
TWO_DEVICES = """
import sys
import tensorflow as tf
device = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
from examples.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


LOSES_ANOTHER = """
import sys
import tensorflow as tf
from examples.training.workers import Workers

class Teardown:
    def __del__(self):
        print("torn down", flush=True)

def read():
    iterator = Teardown()
    yield 1

def train():
    batches = read()
    with workers.end_if_worker_is_lost():
        for batch in batches:
            raise eval(sys.argv[2])

held, workers = Teardown(), Workers(advice="Start again.")
workers.count = int(sys.argv[1])
print("began")
try:
    with workers.end_if_worker_is_lost():
        train()
except Exception as error:
    print("error:", error, file=sys.stderr)
sys.exit(1)
"""
LOST = "tf.errors.UnavailableError(None, None, 'Socket closed')"
TASK = {"type": "worker", "index": 0}
TWO = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "needs TF_CONFIG"),
        ({"TF_CONFIG": "{worker"}, "is not JSON .* Received: {worker"),
        ({"TF_CONFIG": "[]"}, 'no "cluster"'),
        (
            make_config({"ps": ["a:1"], "worker": ["b:1"]}, TASK),
            'has no "cluster" with "worker" and',
        ),
        (make_config({"worker": []}, TASK), "has no list of workers"),
        (make_config({"worker": ["a:1", "b"]}, TASK), "no host:port.* Received: 'b'"),
        (make_config({"worker": ["a:1", "a:70000"]}, TASK), "no host:port"),
        (make_config({"worker": ["a:1", "a:1"]}, TASK), "names a worker twice"),
        (make_config(TWO, None), 'no "task" of "type": "worker"'),
        (make_config(TWO, {"type": "evaluator", "index": 0}), 'no "task" of "type": "worker"'),
        (make_config(TWO, {"type": "worker"}), "no whole number"),
        (make_config(TWO, {"type": "worker", "index": 2}), "2 workers, 0 to 1.* Received: index 2"),
    ],
)
def test_a_wrong_cluster_is_refused(environment, told):
    with pytest.raises(ClusterError, match=told):
        read_cluster(environment)


def test_an_index_may_be_a_text_of_digits():
    assert read_cluster(make_config(TWO, {"type": "worker", "index": "1"})).index == 1


def test_a_process_alone_decides_for_itself():
    alone = workers.Workers()
    assert (alone.is_chief, alone.count, alone.replicas) == (True, 1, 1)
    assert alone.any(True, False) == [True, False]
    assert alone.broadcast({"loss": 0.1}) == {"loss": 0.1}
    alone.check_same("options", {"batch_size": 3})


def end_by(error, count):
    """Raises an error in one of several workers; returns what the process did."""
    line = [sys.executable, "-c", LOSES_ANOTHER, str(count), error]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1 and done.stdout.startswith("began")
    return done.stdout.count("torn down"), done.stderr


def test_a_worker_that_lost_another_ends_without_teardown():
    """The iterator of the data took up to 60 seconds to delete, TensorFlow at load 10 up to 30."""
    deleted, told = end_by(LOST, count=2)
    assert deleted == 0
    assert told.endswith(
        "error: Worker 0 lost another worker: it ended or cannot be reached. Start again. "
        "TensorFlow says: Socket closed\n"
    )


def test_a_worker_with_another_error_ends_without_teardown_of_tensorflow():
    deleted, told = end_by("ValueError('of its own')", count=2)
    assert deleted == 1  # the iterator
    assert told.endswith("error: of its own\n")


def test_a_process_alone_is_torn_down():
    deleted, told = end_by(LOST, count=1)
    assert deleted == 2 and told.endswith("error: Socket closed\n")


def weights(directory):
    """The best weights."""
    return read_run(directory).model.get_weights()


def check_close(first, second, **tolerance):
    assert len(read_history(first)) == len(read_history(second)) == 2
    for a, b in zip(read_history(first), read_history(second), strict=True):
        for name in a:
            np.testing.assert_allclose(a[name], b[name], err_msg=name, **tolerance)
    for ours, theirs in zip(weights(first), weights(second), strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("options", [TRANSLATION, ALGORITHM], ids=["translation", "algorithm"])
def test_two_workers_and_two_devices_equal_one_process(tmp_path, options):
    options = (*options, "--epochs", "2")
    if options[0] == "rnnsearch":
        options = (*options, "--dropout", "0")
    (status,), (told,) = Started(tmp_path / "one", options, count=1).ends()
    assert status == 0, told
    statuses, told = Started(tmp_path / "two", options).ends()
    assert statuses == [0, 0], told
    assert "Epoch 2/2" in told[0]
    assert "poch" not in told[1], "only the chief reports"
    check_close(tmp_path / "one", tmp_path / "two", rtol=1e-4, atol=1e-5)
    mirrored = (*options, "--strategy", "mirrored")
    (status,), (told,) = Started(
        tmp_path / "mirrored", mirrored, count=1, code=("-c", TWO_DEVICES)
    ).ends()
    assert status == 0, told
    assert json.loads((tmp_path / "mirrored" / "arguments.json").read_text())["replicas"] == 2
    check_close(tmp_path / "one", tmp_path / "mirrored", rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_four_workers_equal_one_process(tmp_path):
    options = (*TRANSLATION, "--batch-size", "12", "--epochs", "2", "--dropout", "0")
    (status,), (told,) = Started(tmp_path / "one", options, count=1).ends()
    assert status == 0, told
    statuses, told = Started(tmp_path / "four", options, count=4).ends()
    assert statuses == [0] * 4, told
    assert json.loads((tmp_path / "four" / "arguments.json").read_text())["workers"] == 4
    check_close(tmp_path / "one", tmp_path / "four", rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_ends_the_run_and_all_resume_to_the_same_weights(tmp_path, victim):
    options = (*TRANSLATION, "--dropout", "0.3", "--checkpoint-seconds", "0.2")
    options = (*options, "--max-examples", "1200", "--epochs", "2")
    whole = Started(tmp_path / "whole", options).ends()
    assert whole[0] == [0, 0], whole[1]
    run = Started(tmp_path / "killed", options)
    backup = tmp_path / "killed" / "backup" / "training.backup"
    seen, deadline = set(), time.monotonic() + 200
    while not seen:  # the backup of the first epoch
        assert run.processes[0].poll() is None, run.ends()
        assert time.monotonic() < deadline, "no backups came"
        seen |= {backup.stat().st_mtime_ns} if backup.exists() else set()
        time.sleep(0.05)
    os.kill(run.processes[victim].pid, signal.SIGKILL)
    began = time.monotonic()
    survivor = run.processes[1 - victim]
    status = survivor.wait(60)
    print(f"the other one ended after {time.monotonic() - began:.1f} seconds")
    _, told = run.ends()
    assert status not in (0, -signal.SIGKILL), told
    assert "lost another worker" in told[1 - victim], told
    assert "with --resume" in told[1 - victim]
    assert (
        not (tmp_path / "killed" / "history.csv").exists() or len(read_history(run.directory)) < 2
    )
    again = Started(tmp_path / "killed", (options[0], "--resume")).ends()
    assert again[0] == [0, 0], again[1]
    check_close(tmp_path / "whole", tmp_path / "killed", rtol=0, atol=0)


@pytest.mark.slow
def test_workers_killed_at_random_moments_resume_to_the_same_bits(tmp_path):
    killer = Killer(tmp_path, workers=2, seed=2)
    for number in range(3):
        killer.kill("killed", number)
    assert killer.finish("killed") == ""


@pytest.mark.slow
def test_workers_that_do_not_fit_are_told_so(tmp_path):
    options = (*TRANSLATION, "--epochs", "1")
    statuses, told = Started(
        tmp_path / "other", options, own=((), ("--learning-rate", "0.1"))
    ).ends()
    assert 0 not in statuses, told
    assert "learning_rate=0.1, the chief has 0.5" in told[1], told
    assert "lost another worker" in told[0], told
    statuses, told = Started(tmp_path / "run", options).ends()
    assert statuses == [0, 0], told
    again = (options[0], "--resume", "--epochs", "2")
    statuses, told = Started(tmp_path / "run", again, count=3).ends()
    assert statuses == [1, 1, 1], told
    assert "was started with 2 workers" in told[0], told


@pytest.mark.slow
def test_two_workers_stopped_by_the_clock_go_on(tmp_path):
    options = (*TRANSLATION, "--epochs", "2")
    statuses, told = Started(tmp_path / "whole", options).ends()
    assert statuses == [0, 0], told
    statuses, told = Started(tmp_path / "cut", (*options, "--max-minutes", "0.0001")).ends()
    assert statuses == [0, 0] and "(max_minutes)" in told[0], told
    (row,) = read_history(tmp_path / "cut")
    assert row["steps"] < read_history(tmp_path / "whole")[0]["steps"], "within the first epoch"
    again = (options[0], "--resume", "--max-minutes", "60")
    statuses, told = Started(tmp_path / "cut", again).ends()
    assert statuses == [0, 0], told
    check_close(tmp_path / "whole", tmp_path / "cut", rtol=0, atol=0)
