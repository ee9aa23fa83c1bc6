"""`python -m benchmarks serve --plan` on a tiny model: times, the plan, and the check by load."""

import json

import pytest
from tiny_model import write_version, write_warm_up

from benchmarks import serving_plan
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
    assert [row["utilization"] for row in checks] == list(serving_plan.CHECKED_UTILIZATIONS)
    assert all(row["measured_p95"] >= row["measured_p50"] > 0 for row in checks)
    shown = capsys.readouterr().out
    assert f"num_batch_threads {{ value: {chosen['instances']} }}" in shown
    assert "--tensorflow_inter_op_parallelism=2" in shown


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
    import numpy as np

    inputs = {"x": np.ones((2, 3), "float32"), "n": np.ones(2, "int32")}
    version = write_version(tmp_path, 1, "!")
    write_warm_up(version, [("several", inputs)])
    with pytest.raises(BenchmarkError, match="single values"):
        serving_plan.read_rows(version, "several")


def test_the_open_loop_counts_answers_and_errors(base):
    with Server({MODEL: base}, grpc_port=0, rest_api_port=None) as server:
        load = {"url": f"grpc://127.0.0.1:{server.grpc_port}", "model": MODEL, "seed": 0}
        load |= {"rows": [{"text": "abc"}], "rate": 200.0, "requests": 30}
        found = serving_plan.run_load({**load, "signature": "serving_default"})
        assert len(found["seconds"]) == 30 and found["errors"] == 0
        assert all(0 < second < 30 for second in found["seconds"])
        with pytest.raises(BenchmarkError, match="process failed"):
            serving_plan.run_load({**load, "signature": "another"})
