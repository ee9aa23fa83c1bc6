"""The check of the plan: what it expects of a queue, and when it says that it is not valid."""

import os
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from benchmarks import other_work
from benchmarks.other_work import watch_other_work
from benchmarks.serving_check import Service, describe, judge

SPIN = "while True: pass"
IDLE = {"other_cores_before": [0.02], "other_cores": [0.05], "errors": 0, "late": 0}
ROW = {**IDLE, "requests": 200, "rate": 20.0, "utilization": 0.5}


def test_the_range_holds_the_percentile_of_m_m_1():
    """The time in an M/M/1 queue is exponential with rate `mu - lambda`."""
    times = np.random.default_rng(0).exponential(0.05, 5000)
    low, high = Service(1, times, times).predict(10.0, 2000, 95)
    expected = np.log(20) / (1 / times.mean() - 10)
    assert low < expected < high < 2 * expected


def test_a_short_run_is_expected_to_vary_more():
    service = Service(1, [0.05], [0.05])
    short, long = (service.predict(12.0, requests, 95) for requests in (100, 2000))
    assert short[0] < long[0] < long[1] < short[1]


def test_the_range_reaches_from_lone_to_concurrent_requests():
    low, high = Service(2, alone=[0.01], busy=[0.03]).predict(0.01, 100, 50)
    assert low == pytest.approx(0.01) and high == pytest.approx(0.03)


def test_the_range_reaches_to_requests_after_pauses():
    service = Service(2, alone=[0.01], busy=[0.02])
    assert service.predict(0.01, 100, 50, [0.04])[1] == pytest.approx(0.04)


def test_capacity_is_that_of_concurrent_requests():
    assert Service(2, alone=[0.01], busy=[0.03, 0.05]).capacity == pytest.approx(50)


def test_an_idle_machine_agrees_or_differs():
    row = {**ROW, "predicted_p50": (0.1, 0.2), "predicted_p95": (0.2, 0.4), "measured_p50": 0.15}
    assert judge({**row, "measured_p95": 0.4}, [50, 95]) == "agrees"
    assert judge({**row, "measured_p95": 0.6}, [50, 95]) == (
        "differs: p95 is 1.50 times what was expected"
    )
    assert judge({**row, "measured_p95": 0.1}, [50, 95]).endswith("0.50 times what was expected")
    assert judge({**row, "measured_p95": 0.3, "errors": 3}, [50, 95]) == (
        "differs: 3 requests were refused"
    )


@pytest.mark.parametrize("measured", [0.3, 3.0])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"other_cores_before": [0.9]}, "before the load other work took 0.9 cores"),
        ({"other_cores": [1.5]}, "other work took 1.5 cores"),
        ({"late": 3}, "3 of 200 requests were sent late"),
    ],
)
def test_a_busy_machine_has_no_verdict_whatever_was_measured(change, told, measured):
    row = {**ROW, "predicted_p95": (0.2, 0.4), "measured_p95": measured, **change}
    assert judge(row, [95]) == f"not valid, the machine was not idle: {told}"


def test_two_late_requests_of_two_hundred_are_let_pass():
    row = {**ROW, "predicted_p95": (0.2, 0.4), "measured_p95": 0.3, "late": 2}
    assert judge(row, [95]) == "agrees"


def test_a_sentence_for_each_row():
    row = {**ROW, "predicted_p95": (0.2, 0.4), "measured_p95": 0.3, "verdict": "agrees"}
    assert describe(row, [95]) == (
        "Development server, 20.0 requests/s (50 % of what it can do), 200 requests: "
        "p95 predicted 200.0 to 400.0 ms, 300.0 ms measured: agrees."
    )


def test_other_work_is_the_work_of_our_cores_less_our_own(monkeypatch, tmp_path):
    """Per core: user, nice, system, idle, iowait, irq, softirq, steal, guest."""
    file, tick = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    ours = min(os.sched_getaffinity(0))

    def write(seconds):
        numbers = [tick * seconds, 0, 0, 10**6 * seconds, 10**6 * seconds, 0, 0, tick * seconds, 7]
        told = " ".join(map(str, numbers))
        file.write_text(f"cpu {told}\ncpu{ours} {told}\ncpu4096 {told}\nctxt 5\n")

    write(10)
    monkeypatch.setattr(other_work, "STATISTICS", file)
    clock, own = iter([100.0, 104.0]), iter([1.0, 2.0])
    monkeypatch.setattr(other_work, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(other_work, "_read_own_seconds", lambda servers: next(own))
    with watch_other_work() as cores:
        write(13)  # 3 s of a user and 3 s stolen, 1 s of them our own, in 4 s
    assert cores == [1.25]


def test_nothing_is_known_of_other_work_where_the_system_does_not_say(monkeypatch, tmp_path):
    monkeypatch.setattr(other_work, "STATISTICS", tmp_path / "stat")
    with watch_other_work() as cores:
        pass
    assert cores == []


@pytest.mark.skipif(not other_work.STATISTICS.is_file(), reason="needs /proc")
def test_the_work_of_a_server_and_of_children_that_ended_is_ours():
    before = other_work._read_own_seconds([])
    spinning = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        deadline = time.monotonic() + 60
        while (running := other_work._read_own_seconds([spinning.pid]) - before) < 0.2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        alone = other_work._read_own_seconds([]) - before
    finally:
        spinning.kill()
        spinning.wait()
    assert alone < 0.15 < running <= other_work._read_own_seconds([]) - before + 0.02
