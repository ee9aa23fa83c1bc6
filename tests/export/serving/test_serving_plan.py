"""`python -m benchmarks serve --plan` on a tiny model: times, the plan, and the check by load."""

import json
import time

import numpy as np
import pytest
from tiny_model import write_version, write_warm_up

from benchmarks import open_loop, serving_check, serving_plan
from benchmarks.__main__ import main
from benchmarks.harness import BenchmarkError
from benchmarks.serve import MODEL
from keras_attention.export.serving import Server
from keras_attention.export.serving._tensor_protos import encode_strings


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A base directory with two versions; the newest has a warm-up file."""
    base = tmp_path_factory.mktemp("planned")
    write_version(base, 1, "?")
    texts = {"text": encode_strings(["abc", "ä"])}
    write_version(base, 2, "!", warm_up=[("serving_default", texts)])
    return base


@pytest.mark.thorough
def test_plan_and_check(base, tmp_path, capsys):
    words = ["serve", "--plan", str(base), "--load", "100", "--latency-ms", "2000"]
    words += ["--max-batch", "3", "--repeats", "4", "--threads", "2", "--check", "40"]
    assert main([*words, "--json", str(tmp_path / "plan.json")]) == 0
    rows = json.loads((tmp_path / "plan.json").read_text())["rows"]
    times = [row for row in rows if row["name"] == "times"]
    assert [(row["instances"], row["threads"]) for row in times] == [(1, 2), (2, 1)]
    for row in times:
        assert {size: len(found) for size, found in row["times"].items()} == {"1": 4, "2": 4}
    (chosen,) = (row for row in rows if row["name"] == "chosen")
    assert chosen["replicas"] >= 1 and chosen["latency"] <= 2.0
    checks = [row for row in rows if row["name"] == "check"]
    assert [row["utilization"] for row in checks] == list(serving_check.UTILIZATIONS)
    assert all(row["measured_p95"] >= row["measured_p50"] > 0 for row in checks)
    (service,) = (row for row in rows if row["name"] == "service")
    assert service["instances"] == 2 and service["protocol"] == "grpc"
    inside = next(row["times"]["1"] for row in times if row["instances"] == 2)
    expected = max(0.0, np.mean(service["busy"]) - np.mean(inside))
    assert service["protocol_seconds"] == pytest.approx(expected)
    shown = capsys.readouterr().out
    assert all(row["verdict"] in shown for row in checks)
    assert f"num_batch_threads {{ value: {chosen['instances']} }}" in shown
    assert "--tensorflow_inter_op_parallelism=2" in shown
    assert "max_enqueued_batches { value: 100 }" in shown


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--load", "0", "expected a number above 0, got '0'"),
        ("--load", "nan", "expected a number above 0, got 'nan'"),
        ("--percentile", "100", "expected a number above 0 and below 100, got '100'"),
        ("--latency-ms", "-5", "expected a number above 0, got '-5'"),
        ("--max-batch", "0", "expected a whole number of at least 1, got '0'"),
        ("--check", "many", "expected a whole number of at least 1, got 'many'"),
    ],
)
def test_numbers_out_of_range_are_refused_before_anything_is_measured(capsys, flag, value, said):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--plan", f"{flag}={value}"])
    assert f"argument {flag}: {said}" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_version_with_text_ops_is_measured_in_a_process_that_has_imported_nothing(toy):
    """The ops of TensorFlow Text are registered by an import, here that of the library."""
    rows = [{"text": "abc"}, {"text": "ä"}]
    times = serving_plan.measure(toy.path, "greedy", rows, [1, 2], 1, 1, lambda message: None)
    assert {size: len(found) for size, found in times[1].items()} == {1: 1, 2: 1}


def test_the_newest_version_and_its_warm_up_rows(base):
    path, found = serving_plan.find_version(base)
    assert path.name == "2" and found == base.resolve()
    assert serving_plan.find_version(path) == (path, found)
    assert serving_plan.read_rows(path, "serving_default") == [{"text": "abc"}, {"text": "ä"}]


def test_lines_take_the_place_of_the_warm_up(base, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("ein Mann\n\nein Hund\n")
    assert serving_plan.read_rows(base / "1", "serving_default", lines) == [
        {"text": "ein Mann"},
        {"text": "ein Hund"},
    ]


def test_rows_that_are_not_there_or_not_single_values_are_refused(base, tmp_path):
    with pytest.raises(BenchmarkError, match="--lines"):
        serving_plan.read_rows(base / "1", "serving_default")
    with pytest.raises(BenchmarkError, match="no exported version"):
        serving_plan.find_version(tmp_path)
    inputs = {"x": np.ones((2, 3), "float32"), "n": np.ones(2, "int32")}
    version = write_version(tmp_path, 1, "!")
    write_warm_up(version, [("several", inputs)])
    with pytest.raises(BenchmarkError, match="single values"):
        serving_plan.read_rows(version, "several")


def test_the_open_loop_counts_answers_and_errors(base):
    with Server({MODEL: base}, grpc_port=0, rest_api_port=None) as server:
        load = {"url": f"grpc://127.0.0.1:{server.grpc_port}", "model": MODEL, "seed": 0}
        load |= {"rows": [{"text": "abc"}], "rate": 200.0, "requests": 30, "load": "ask"}
        found = serving_check.run_load({**load, "signature": "serving_default"})
        assert len(found["seconds"]) == len(found["delays"]) == 30 and found["errors"] == 0
        assert all(0 < second < 30 for second in found["seconds"])
        assert all(0 <= delay < 30 for delay in found["delays"])
        with pytest.raises(BenchmarkError, match="process failed"):
            serving_check.run_load({**load, "signature": "another"})


def test_clients_that_wait_end_after_their_requests_or_their_time(base):
    with Server({MODEL: base}, grpc_port=0, rest_api_port=None) as server:
        load = {"url": f"grpc://127.0.0.1:{server.grpc_port}", "model": MODEL, "clients": 3}
        load |= {"signature": "serving_default", "rows": [{"text": "abc"}, {"text": "ä"}]}
        found = open_loop.ask_in_turn(**load, requests=20, max_seconds=60.0)
        assert len(found["seconds"]) == 20 and found["errors"] == 0
        found = open_loop.ask_in_turn(**load, requests=10**9, max_seconds=0.3)
        assert 0 < len(found["seconds"]) < 10**5
        wrong = {"rows": [{"text": "abc"}] * 5 + [{"txt": "abc"}]}  # the first five warm it up
        found = open_loop.ask_in_turn(**{**load, **wrong}, requests=12, max_seconds=60.0)
        assert len(found["seconds"]) == 10 and found["errors"] == 2


def test_clients_pause_before_they_ask_and_pauses_do_not_count(base):
    with Server({MODEL: base}, grpc_port=0, rest_api_port=None) as server:
        load = {"url": f"grpc://127.0.0.1:{server.grpc_port}", "model": MODEL, "clients": 1}
        load |= {"signature": "serving_default", "rows": [{"text": "abc"}], "requests": 20}
        began = time.perf_counter()
        found = open_loop.ask_in_turn(**load, max_seconds=60.0, mean_pause=0.1)
        expected = np.random.default_rng(0).exponential(0.1, 20).sum()
        assert sum(found["seconds"]) < time.perf_counter() - began - expected


def test_requests_that_no_thread_could_send_are_late(base, monkeypatch):
    """One thread for all requests sends each after the answer to the one before."""
    monkeypatch.setattr(open_loop, "CONNECTION_THREADS", 1)
    with Server({MODEL: base}, grpc_port=0, rest_api_port=None) as server:
        load = {"url": f"grpc://127.0.0.1:{server.grpc_port}", "model": MODEL, "seed": 0}
        load |= {"signature": "serving_default", "rows": [{"text": "abc"}]}
        found = open_loop.ask(**load, rate=1e6, requests=40)
    assert found["delays"][-1] > max(1e-5, found["delays"][0])
    assert found["seconds"][-1] >= found["delays"][-1]
