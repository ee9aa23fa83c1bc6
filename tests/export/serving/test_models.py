"""Versions come and go as in the model server: the new one is ready before the old one leaves."""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import write_version, write_warm_up

from keras_attention.export import _warmup_requests
from keras_attention.export._digest_manifest import MANIFEST_FILE, write_manifest
from keras_attention.export._warmup_requests import WARMUP_FILE
from keras_attention.export.serving import (
    Client,
    Server,
    ServingError,
    _json_requests,
    served_model,
)
from keras_attention.export.serving._loaded_version import LoadedVersion
from keras_attention.export.serving._tensor_protos import encode_strings
from keras_attention.export.serving.served_model import ServedModel
from keras_attention.export.serving.server import LOADING_NICENESS

TEXT = {"text": encode_strings(["a", "b"])}


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Versions 1 to 3, which append their own marks."""
    base = tmp_path_factory.mktemp("written")
    for version in (1, 2, 3):
        write_version(base, version, f"-{version}")
    return base


@pytest.fixture
def base(tmp_path):
    return tmp_path


def put(versions, base, version, as_version=None):
    """Copies a version beside its name and renames it, as the exporter writes one."""
    beside = base / ".coming"
    shutil.copytree(versions / str(version), beside)
    target = base / str(as_version or version)
    beside.rename(target)
    return target


def marks(model, **which):
    """Which version answers, and the mark it appends."""
    with model.acquire(**which) as (version, loaded):
        found = loaded.run("", TEXT)["text"].tolist()
    first, second = found
    assert first[1:] == second[1:]
    return version, first[1:].decode()


def states(model):
    return {version: state for version, (state, _) in model.states().items()}


def test_the_highest_version_answers_and_the_one_before_leaves(versions, base):
    model = ServedModel("tiny", base)
    model.poll()
    with pytest.raises(ServingError, match=r"NOT_FOUND: .* Latest\(tiny\)"):
        marks(model)
    put(versions, base, 2)
    (base / "notes").mkdir()
    model.poll()
    assert marks(model) == (2, "-2")
    put(versions, base, 1)
    put(versions, base, 3, as_version=10)
    model.poll()
    assert marks(model) == (10, "-3")
    assert states(model) == {2: "END", 10: "AVAILABLE"}
    with pytest.raises(ServingError, match=r"Specific\(tiny, 2\)"):
        marks(model, version=2)
    model.close()


def test_a_name_that_is_no_int64_is_no_version(versions, base):
    put(versions, base, 1)
    put(versions, base, 2, as_version=20261005123456789012)
    model = ServedModel("tiny", base)
    model.poll()
    assert marks(model) == (1, "-1")
    assert states(model) == {1: "AVAILABLE"}
    model.close()


FAULTS = {
    "empty": "DATA_LOSS: saved_model.pb is missing",
    "a flipped bit": "DATA_LOSS: saved_model.pb is damaged: its SHA-256 digest differs",
    "no manifest": "DATA_LOSS: assets.extra/manifest.json is missing",
    "damaged": "UNKNOWN: Cannot parse file b'saved_model.pb': Error parsing",
    "warm-up fails": "INVALID_ARGUMENT: warm-up request 1: assertion failed: [three or more]",
    "warm-up damaged": f"DATA_LOSS: {WARMUP_FILE}: record 1 cannot be read: truncated record at",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_version_that_fails_leaves_the_old_one_serving(versions, base, fault, capfd):
    model = ServedModel("tiny", base)
    put(versions, base, 1)
    model.poll()
    path = put(versions, base, 2)
    if fault == "empty":
        (path / "saved_model.pb").unlink()
    elif fault == "a flipped bit":
        content = bytearray((path / "saved_model.pb").read_bytes())
        content[len(content) // 2] ^= 4
        (path / "saved_model.pb").write_bytes(content)
    elif fault == "no manifest":
        (path / MANIFEST_FILE).unlink()
    elif fault == "damaged":
        (path / "saved_model.pb").write_bytes(b"\xff" * 99)
        write_manifest(path)
    elif fault == "warm-up fails":
        write_warm_up(path, [("failing", {"n": np.array([7], "int32")}, ())])
    else:
        write_warm_up(path, [("", TEXT, ())])
        (path / WARMUP_FILE).write_bytes((path / WARMUP_FILE).read_bytes()[:-3])
        write_manifest(path)
    model.poll()
    assert marks(model) == (1, "-1")
    assert states(model) == {1: "AVAILABLE", 2: "END"}
    (_, error) = model.states()[2]
    assert str(error).startswith(FAULTS[fault])
    assert str(base) not in str(error)
    printed = capfd.readouterr().err
    assert printed.count("tiny 2 cannot be served") == 1
    assert f"cannot be served: {error} ({path})" in printed
    model.poll()  # not tried again, nor told again
    assert "cannot" not in capfd.readouterr().err
    shutil.rmtree(path)
    put(versions, base, 3, as_version=2)
    model.poll()  # another one, perhaps still being written
    model.poll()
    assert marks(model) == (2, "-3")
    model.close()


def test_a_version_whose_copy_was_not_complete_comes_up_when_it_is(versions, base, tmp_path):
    whole = put(versions, tmp_path / "elsewhere", 1)
    (base / "1").mkdir()
    shutil.copy(whole / "saved_model.pb", base / "1")
    model = ServedModel("tiny", base)
    model.poll()
    assert states(model) == {1: "END"}
    shutil.copytree(whole, base / "1", dirs_exist_ok=True)
    model.poll()
    model.poll()
    assert marks(model) == (1, "-1")
    model.close()


def test_the_warm_up_runs_what_it_names(versions, base, capsys):
    path = put(versions, base, 1)
    inputs = {"x": np.ones((2, 3), "float32"), "n": np.ones(2, "int32")}
    write_warm_up(path, [("", TEXT, ()), ("several", inputs, ()), ("several", inputs, ("sum",))])
    model = ServedModel("tiny", base)
    model.poll()
    printed = capsys.readouterr()
    assert "tiny 1 is served, 3 warm-up requests, " in printed.out
    steps = re.findall(r"^tiny 1: (.+) \(\d+\.\d s\)$", printed.err, re.MULTILINE)
    assert steps == [
        "checking the files",
        "loading the graph and the variables",
        "warm-up request 1 of 3, serving_default",
        "warm-up request 2 of 3, several",
        "warm-up request 3 of 3, several",
    ]
    model.close()


def test_more_than_a_thousand_warm_up_requests_are_refused(versions, base, monkeypatch):
    path = put(versions, base, 1)
    monkeypatch.setattr(_warmup_requests, "MAX_RECORDS", 2000)  # of what is written
    write_warm_up(path, [("", TEXT, ())] * 1001)
    model = ServedModel("tiny", base)
    model.poll()
    assert "exceeds the maximum (1000)" in model.states()[1][1].message


def test_all_versions_or_chosen_ones_may_be_served(versions, base):
    for version in (1, 2, 3):
        put(versions, base, version)
    every = ServedModel("tiny", base, policy="all", labels={"stable": 2, "gone": 7})
    every.poll()
    assert [marks(every, version=version)[1] for version in (1, 2, 3)] == ["-1", "-2", "-3"]
    assert marks(every) == (3, "-3")
    assert marks(every, label="stable") == (2, "-2")
    with pytest.raises(ServingError, match="NOT_FOUND"):
        marks(every, label="gone")
    with pytest.raises(ServingError, match="Unrecognized servable version label: other"):
        marks(every, label="other")
    every.close()
    chosen = ServedModel("tiny", base, policy=[1, 5])
    chosen.poll()
    assert states(chosen) == {1: "AVAILABLE"}
    chosen.close()
    with pytest.raises(ValueError, match='expects `policy` to be "latest"'):
        ServedModel("tiny", base, policy="newest")


def test_a_version_that_leaves_before_it_is_loaded_is_not_announced_any_more(versions, base):
    put(versions, base, 1)
    model = ServedModel("tiny", base)
    model.announce_versions()
    (base / "1").rename(base / "2")
    model.poll()
    assert states(model) == {2: "AVAILABLE"}
    model.close()


def test_a_directory_that_vanishes_takes_no_model_with_it(versions, base):
    put(versions, base, 1)
    model = ServedModel("tiny", base)
    model.poll()
    shutil.rmtree(base / "1")
    model.poll()
    assert marks(model) == (1, "-1")
    model.close()


def test_a_version_is_unloaded_after_its_last_request(versions, base):
    model = ServedModel("tiny", base)
    put(versions, base, 1)
    model.poll()
    put(versions, base, 2)
    with model.acquire() as (version, loaded):
        assert version == 1
        polling = threading.Thread(target=model.poll)
        polling.start()
        until = time.monotonic() + 10
        while states(model).get(2) != "AVAILABLE" and time.monotonic() < until:
            time.sleep(0.01)
        assert marks(model) == (2, "-2")
        assert states(model)[1] == "UNLOADING" or polling.is_alive()
        assert loaded.run("", TEXT)["text"].tolist() == [b"a-1", b"b-1"]
    polling.join(timeout=10)
    assert states(model) == {1: "END", 2: "AVAILABLE"}
    model.close()


def test_a_server_answers_for_what_it_loads(versions, base, monkeypatch):
    """The ports are open before; a prediction is told to come back, and by whom."""
    put(versions, base, 1)
    go_on, warm = threading.Event(), threading.Event()

    def slowly(version):
        version._report("warm-up request 1 of 17, slow", True)
        warm.set()
        assert go_on.wait(timeout=20)
        return 17

    monkeypatch.setattr(LoadedVersion, "warm_up", slowly)
    server = Server({"tiny": base}, grpc_port=0, rest_api_port=0)
    server.listen()
    urls = f"grpc://127.0.0.1:{server.grpc_port}", f"http://127.0.0.1:{server.rest_api_port}"
    clients = [Client(url, "tiny", retries=0) for url in urls]
    try:
        assert [client.status() for client in clients] == [{1: "START"}] * 2
        loading = threading.Thread(target=server.load)
        loading.start()
        assert warm.wait(timeout=20)
        message = r"UNAVAILABLE: tiny 1 is being loaded \(warm-up request 1 of 17, slow, \d+ s"
        for client in clients:
            assert client.status() == {1: "LOADING"}
            with pytest.raises(ServingError, match=message):
                client.predict(text=["a"])
        status = ask_over_rest(server, "GET", "/v1/models/tiny")[1]
        (entry,) = json.loads(status)["model_version_status"]
        assert entry["status"]["error_code"] == "OK"
        assert entry["status"]["error_message"].startswith("warm-up request 1 of 17, slow, ")
        assert ask_over_rest(server)[0] == 503
        go_on.set()
        loading.join()
        for client in clients:
            assert client.predict(text=["a"])["text"].tolist() == ["a-1"]
        with pytest.raises(ServingError, match="NOT_FOUND"):
            Client(urls[0], "tiny", version=2).predict(text=["a"])
    finally:
        go_on.set()
        server.stop()


def test_a_damaged_version_takes_no_server_with_it(versions, base):
    put(versions, base, 1)
    with Server({"tiny": base}, grpc_port=0, rest_api_port=0, poll_seconds=0.02) as server:
        shutil.copytree(versions / "2", base / ".coming")
        file = base / ".coming" / "saved_model.pb"
        file.write_bytes(file.read_bytes()[:-7])
        (base / ".coming").rename(base / "2")
        with Client(f"grpc://127.0.0.1:{server.grpc_port}", "tiny") as client:
            until = time.monotonic() + 20
            while client.status().get(2) != "END":
                assert time.monotonic() < until
                time.sleep(0.01)
            assert client.status()[1] == "AVAILABLE"
            assert client.predict(text=["a"])["text"].tolist() == ["a-1"]
        newest = json.loads(ask_over_rest(server, "GET", "/v1/models/tiny")[1])
        found = newest["model_version_status"][0]["status"]
        assert found["error_code"] == "DATA_LOSS" and str(base) not in found["error_message"]
        assert found["error_message"].startswith("saved_model.pb is damaged: it has ")


def test_a_server_that_ends_gives_up_what_it_loads(versions, base, monkeypatch):
    put(versions, base, 1)
    max_concurrency, steps = threading.Event(), []

    def endless(version):
        while True:
            max_concurrency.set()
            version._report("again", False)
            steps.append(time.sleep(0.01))

    with Server({"tiny": base}, grpc_port=None, rest_api_port=0, poll_seconds=0.02) as server:
        monkeypatch.setattr(LoadedVersion, "warm_up", endless)
        put(versions, base, 2)
        assert max_concurrency.wait(timeout=20)
    assert states(server.core.models["tiny"]) == {1: "END", 2: "END"}


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own on Linux")
def test_new_versions_are_loaded_at_a_low_priority(versions, base, monkeypatch):
    found, load = [], served_model.LoadedVersion

    def record_priority(path, report):
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return load(path, report)

    monkeypatch.setattr(served_model, "LoadedVersion", record_priority)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with Server({"tiny": base}, grpc_port=None, rest_api_port=0, poll_seconds=0.02) as server:
        for version in (1, 2):
            put(versions, base, version)
            until = time.monotonic() + 20
            while states(server.core.models["tiny"]).get(version) != "AVAILABLE":
                assert time.monotonic() < until
                time.sleep(0.01)
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
    # The first has nobody to disturb, and TensorFlow's threads are those that it starts.
    assert found == [before, max(before, LOADING_NICENESS)]


def test_outputs_come_from_what_is_prepared(versions, monkeypatch):
    """Another set of outputs would have to be prepared first, for seconds."""
    loaded, fetched = LoadedVersion(versions / "1"), []
    run = loaded._session.run
    monkeypatch.setattr(
        loaded._session,
        "run",
        lambda fetches, *more, **named: (
            fetched.append(sorted(fetches)),
            run(fetches, *more, **named),
        )[1],
    )

    def ask(rows, *outputs, **named):
        inputs = {"x": np.ones((rows, 2), "float32"), "n": np.ones(rows, "int32")}
        return sorted(loaded.run("several", inputs, outputs, **named))

    assert ask(1, "sum") == ["sum"]  # nothing is prepared yet
    assert ask(1, prepare=True) == ["double", "sum"]
    for rows in (1, 17, 1000):
        assert ask(rows, "double") == ["double"]
    assert ask(1, "double", prepare=True) == ["double"]
    assert ask(17, "double") == ["double"]
    assert fetched == [["sum"], *[["double", "sum"]] * 4, *[["double"]] * 2]
    loaded.close()


def test_no_request_fails_while_versions_change(versions, base):
    put(versions, base, 1)
    with Server({"tiny": base}, grpc_port=0, rest_api_port=None, poll_seconds=0.02) as server:
        seen = []

        def ask():
            with Client(f"grpc://127.0.0.1:{server.grpc_port}", "tiny", retries=0) as client:
                while not seen or seen[-1] != "a-3":
                    seen.append(client.predict(text=["a"])["text"][0])

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in (2, 3):
            time.sleep(0.2)
            put(versions, base, version)
        for thread in threads:
            thread.join(timeout=20)
            assert not thread.is_alive()
    assert set(seen) <= {"a-1", "a-2", "a-3"} and seen[-1] == "a-3"


def test_a_rest_request_is_run_by_the_version_that_it_was_read_for(versions, base, monkeypatch):
    """A version with other inputs comes up while the request waits for its turn."""
    put(versions, base, 1)
    read = threading.Event()
    inputs_of = _json_requests.parse_inputs

    def parse_and_report(*arguments):
        found = inputs_of(*arguments)
        read.set()
        return found

    monkeypatch.setattr(_json_requests, "parse_inputs", parse_and_report)
    server = Server(
        {"tiny": base}, grpc_port=None, rest_api_port=0, max_concurrency=1, poll_seconds=0.02
    )
    with server, concurrent.futures.ThreadPoolExecutor(1) as threads:
        with server.core.request_queue.acquire_slot():
            answer = threads.submit(ask_over_rest, server)
            assert read.wait(timeout=10)
            beside = base / ".coming"
            tf.saved_model.save(Other(), str(beside))
            write_manifest(beside)
            beside.rename(base / "2")
            until = time.monotonic() + 10
            while states(server.core.models["tiny"]).get(2) != "AVAILABLE":
                assert time.monotonic() < until
                time.sleep(0.01)
        assert answer.result(timeout=10) == (200, b'{"predictions": ["a-1"]}')


class Other(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="other")])
    def __call__(self, other):
        return {"text": tf.strings.as_string(other)}


def ask_over_rest(server, method="POST", path="/v1/models/tiny:predict"):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=30)
    connection.request(method, path, b'{"instances": ["a"]}' if method == "POST" else None)
    response = connection.getresponse()
    status, body = response.status, response.read()
    connection.close()
    return status, body
