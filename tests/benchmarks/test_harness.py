"""The harness: sides take turns in processes of their own; missing and failing ones are said."""

import os
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import (
    BenchmarkError,
    Case,
    Side,
    available_cores,
    measure_memory,
    measure_times,
    summary,
)

HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def toys_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def case(name, toy, /, **options):
    return Case(name, f"toy_sides:{toy}", options)


def test_sides_are_warmed_up_first_and_then_take_turns(tmp_path):
    log = tmp_path / "log"
    cases = [case(name, "recorder", name=name, log=str(log)) for name in "ABC"]
    results = measure_times(cases, repeats=3, threads=1, warmup=2)
    lines = log.read_text().splitlines()
    assert lines[:9] == ["build A", "A", "A", "build B", "B", "B", "build C", "C", "C"]
    assert lines[9:] == ["A", "B", "C"] * 3
    assert [len(results[name]["seconds"]) for name in "ABC"] == [3, 3, 3]


def test_the_time_of_a_call_is_measured(tmp_path):
    log = str(tmp_path / "log")
    cases = [
        case("quick", "recorder", name="quick", log=log),
        case("slow", "recorder", name="slow", log=log, seconds=0.2),
    ]
    results = measure_times(cases, repeats=3, threads=1)
    assert 0.2 <= results["slow"]["median_seconds"] < 1.0
    assert results["quick"]["median_seconds"] < 0.1
    assert results["slow"]["first_call_seconds"] >= 0.2


def test_printing_libraries_do_not_disturb_the_answers():
    results = measure_times([case("talker", "talker")], repeats=2, threads=1)
    assert results["talker"]["median_seconds"] < 1


def test_every_side_gets_the_same_number_of_threads():
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        toy = case("threads", "environment", variable=variable, expected="3")
        assert measure_times([toy], repeats=1, threads=3)["threads"]["seconds"]


def test_extra_memory_is_the_peak_of_the_calls():
    cases = [case("large", "holder", megabytes=97), case("small", "holder", megabytes=13)]
    results = measure_memory(cases, repeats=2, threads=1)
    for name, expected in (("large", 97e6), ("small", 13e6)):
        assert len(results[name]["extra_bytes"]) == 2
        assert results[name]["median_extra_bytes"] == pytest.approx(expected, abs=3e6)


def test_a_missing_peer_is_said_and_the_others_are_measured(tmp_path):
    absent = Case("peer", "toy_sides:talker", needs=("no_such_module",))
    progress = []
    results = measure_times(
        [case("ours", "recorder", name="ours", log=str(tmp_path / "log")), absent],
        repeats=2,
        threads=1,
        progress=progress.append,
    )
    expected = "not measured: no_such_module not installed (pip install --group benchmarks)"
    assert results["peer"] == {"missing": expected}
    assert list(results) == ["ours", "peer"] and len(results["ours"]["seconds"]) == 2
    assert progress == ["building ours", "round 1 of 2", "round 2 of 2"]
    assert measure_memory([absent], threads=1) == {"peer": {"missing": expected}}


@pytest.mark.parametrize(
    ("toy", "message"),
    [
        ("broken", "'side' failed: ValueError: no such size$"),
        ("exit_midway", "process of 'side' ended. Exit status 7. .*last words"),
        ("absent", "'side' failed: AttributeError: .*absent"),
    ],
)
def test_a_failing_side_ends_the_run_with_its_reason(toy, message):
    with pytest.raises(BenchmarkError, match=message):
        measure_times([case("side", toy)], repeats=1, threads=1)


def test_a_number_that_is_not_finite_is_a_failure():
    toy = case("side", "environment", variable="NO_SUCH_VARIABLE", expected="set")
    with pytest.raises(BenchmarkError, match="computed nan, which is not a finite number"):
        measure_times([toy], repeats=1, threads=1)


def test_no_process_is_left_behind_by_a_failure(monkeypatch):
    started = []

    class Recorded(Side):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            started.append(self._process)

    monkeypatch.setattr(harness, "Side", Recorded)
    with pytest.raises(BenchmarkError):
        measure_times([case("a", "talker"), case("b", "broken")], repeats=1, threads=1)
    assert [process.returncode for process in started] == [0, 0]


def test_median_quartiles_and_fastest():
    assert summary([5.0, 1.0, 4.0, 2.0, 3.0]) == {
        "median_seconds": 3.0,
        "quartile_seconds": [2.0, 4.0],
        "fastest_seconds": 1.0,
    }
    assert summary([0.25])["median_seconds"] == 0.25
    assert summary([0.25])["quartile_seconds"] == [0.25, 0.25]


def test_cores_are_those_this_process_may_use():
    assert 1 <= available_cores() <= os.cpu_count()
