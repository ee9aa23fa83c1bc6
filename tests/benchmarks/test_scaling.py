"""The model of training on several workers, and `python -m benchmarks scaling`."""

import json

import numpy as np
import pytest

from benchmarks import scaling
from benchmarks.__main__ import main
from benchmarks.gpu.h100 import LAUNCH_SECONDS
from benchmarks.scaling_model import Ring, Training, fit_line, fit_ring


def simulate_ring(arrays, ring):
    """Sums arrays in a ring of `len(arrays)` parts; returns what each has, and the seconds."""
    n, parts = len(arrays), [np.array_split(array.copy(), len(arrays)) for array in arrays]
    seconds = 0.0
    for turn in range(2 * (n - 1)):
        sent = [(w, (w - turn) % n, parts[w][(w - turn) % n].copy()) for w in range(n)]
        for worker, number, part in sent:
            is_summing = turn < n - 1
            target = parts[(worker + 1) % n]
            target[number] = target[number] + part if is_summing else part
        seconds += ring.latency + max(part.nbytes for *_, part in sent) / ring.bandwidth
    return [np.concatenate(each) for each in parts], seconds


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_a_ring_takes_as_long_as_its_messages(workers):
    ring = Ring(latency=0.25, bandwidth=100.0)
    arrays = [np.random.default_rng(n).integers(0, 9, 30) for n in range(workers)]
    summed, seconds = simulate_ring(arrays, ring)
    for each in summed:
        np.testing.assert_array_equal(each, sum(arrays))
    assert ring.all_reduce_seconds(arrays[0].nbytes, workers) == pytest.approx(seconds)


def test_one_worker_sends_nothing():
    assert Ring(1.0, 1.0).all_reduce_seconds(1e9, 1) == 0


def test_machines_add_hops_between_them_and_the_slower_link_decides():
    ring = Ring(1.0, 100.0, per_machine=4, far_latency=10.0, far_bandwidth=20.0)
    assert ring.all_reduce_seconds(0, 4) == 6
    assert ring.all_reduce_seconds(0, 8) == 12 + 2 * 10
    assert ring.all_reduce_seconds(800, 4) == 6 + 1.5 * 8
    assert ring.all_reduce_seconds(800, 8) == 32 + 1.75 * 40


def test_workers_that_share_a_core_take_longer():
    training = Training(lambda tokens: 2.0 * tokens, 100.0, Ring(0.5, 50.0), cores=2)
    assert training.step_seconds(3, 1) == 6
    assert training.step_seconds(3, 2) == 6 + 1 + 2
    assert training.step_seconds(3, 4) == 2 * (6 + 3 + 3)
    assert training.efficiency(3, 2) == pytest.approx(6 / 9)


def test_what_was_measured_is_fitted():
    ring = Ring(latency=0.002, bandwidth=3e8)
    sizes = [4_000, 1_000_000, 16_000_000]
    fitted = fit_ring(4, sizes, [ring.all_reduce_seconds(size, 4) for size in sizes])
    assert fitted.latency == pytest.approx(ring.latency)
    assert fitted.bandwidth == pytest.approx(ring.bandwidth)
    assert fit_line([10, 20], [1.0, 4.0])[0] == 0, "no time is negative"


def test_the_report_predicts_what_it_did_not_fit():
    training = Training(lambda tokens: 0.01 + 0.001 * tokens, 1e6, Ring(0.001, 1e8), cores=2)
    steps = {
        (n, batch): training.step_seconds(batch * scaling.LENGTH, n)
        for n in (1, 2, 4)
        for batch in (4, 16)
    }
    sums = {
        (n, size): training.find_slowdown(n) * training.ring.all_reduce_seconds(size, n)
        for n in (2, 4)
        for size in (4_000, 1_000_000)
    }
    report = {"lines": [], "rows": [], "notes": []}
    scaling.fill(report, steps, sums, 1_000_000, cores=2)
    assert len(report["rows"]) == 10
    for row in report["rows"]:
        assert row["model_seconds"] == pytest.approx(row["seconds"]), row
    assert report["model"]["latency_seconds"] == pytest.approx(0.001)


def test_gpus_lose_to_the_sum_what_the_model_says(tmp_path, capsys):
    path = tmp_path / "gpus.json"
    assert main(["scaling", "--gpus", "--json", str(path)]) == 0
    assert "On paper" in capsys.readouterr().out
    rows = {
        (row["model"], row["tokens"], row["gpus"]): row["seconds"]
        for row in json.loads(path.read_text())["rows"]
    }
    assert rows["Transformer", 1920, 1] == pytest.approx(605 * LAUNCH_SECONDS)
    # 126 hops, 14 of them between machines, and twice the gradient but for a 64th.
    num_bytes = 4 * (28 * 3 * 256**2 + 2 * 8000 * 256)
    expected = 112 * 3.4e-6 + 14 * 9.6e-6 + 126 / 64 * num_bytes / 400e9
    assert rows["Transformer", 1920, 64] - rows["Transformer", 1920, 1] == pytest.approx(expected)


@pytest.mark.thorough
def test_a_small_run_measures_all(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "WORKERS", (1, 2))
    monkeypatch.setattr(scaling, "BATCHES", (1, 2))
    monkeypatch.setattr(scaling, "SIZES", (400, 40_000))
    path = tmp_path / "scaling.json"
    words = ["scaling", "--width", "8", "--repeats", "1", "--warmup", "1", "--json", str(path)]
    assert main(words) == 0
    report = json.loads(path.read_text())
    what = [(row["workers"], row["what"][:4].strip()) for row in report["rows"]]
    assert what == [(2, "sum")] * 2 + [(1, "step")] * 2 + [(2, "step")] * 2
    assert all(row["seconds"] > 0 for row in report["rows"])
    assert report["model"]["gradient_bytes"] > 4 * 8 * scaling.VOCABULARY
