"""`python -m benchmarks gpu`: what is compared, printed, skipped and survived; a run on JAX."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import gpu
from benchmarks.__main__ import main
from benchmarks.gpu.cases import all_cases
from benchmarks.harness import ROOT, BenchmarkError

CASE = "normalizers 4 x 1 x 20, float32"


class FakeWorker:
    """Answers at once; entmax fails to build, sparsemax dies when it is called."""

    def __init__(self, library, environment):
        self.library = library

    def ask(self, seconds, **request):
        if request["do"] == "build":
            return {name: self.build(name) for name in request["sides"]}
        if request["do"] == "call" and "sparsemax" in request["side"]:
            raise BenchmarkError("the process ended: killed")
        return {"seconds": 0.002, "calls": 3} if request["do"] == "call" else {}

    @staticmethod
    def build(name):
        if "entmax" in name:
            return {"error": "ValueError: no | such form"}
        return {
            "value": 1.0 + ("unblocked" not in name and "all pairs" not in name),
            "first_call_seconds": 1.0,
            "extra_bytes": 3e6,
        }

    def stop(self):
        pass


@pytest.fixture
def fake_workers(monkeypatch):
    """Canned workers, with JAX and without PyTorch."""
    monkeypatch.setattr(gpu, "Worker", FakeWorker)
    monkeypatch.setattr(gpu, "is_installed", lambda name: name == "jax")


@pytest.mark.parametrize("small", [True, False])
def test_rows_of_a_case_have_names_of_their_own(small):
    cases = all_cases(small)
    for case in cases:
        names = [row.name for row in case.rows]
        assert len(set(names)) == len(names)
    names = [case.name for case in cases]
    assert small or len(set(names)) == len(names)


def test_a_row_that_fails_leaves_the_others(fake_workers, tmp_path, capsys):
    path = tmp_path / "gpu.json"
    words = ["gpu", "--small", "--only", "normalizers 4", "--repeats", "2", "--json", str(path)]
    assert main(words) == 0
    rows = {
        (row["side"], row["what"]): row
        for row in json.loads(path.read_text())["rows"]
        if row["case"] == CASE
    }
    assert rows["softmax", "both"]["seconds"] == [0.002, 0.002]
    assert rows["softmax", "both"]["floor_seconds"] > 0
    assert rows["entmax 1.5", "both"]["error"] == "ValueError: no | such form"
    assert "killed" in rows["sparsemax", "forward"]["error"]
    lines = capsys.readouterr().out.splitlines()
    assert "|  | entmax 1.5 | forward | failed | ValueError: no / such form |" in lines
    assert any(f"| {CASE} | softmax | forward | 2 | 2 to 2 |" in line for line in lines)
    assert any(line.endswith("| 3 MB |") for line in lines)
    assert "* PyTorch is not installed: its rows are missing." in lines


def test_forms_that_compute_different_numbers_are_noted(fake_workers, capsys):
    assert main(["gpu", "--small", "--only", "additive 3 x 5", "--repeats", "1"]) == 0
    output = capsys.readouterr().out
    assert "ours, all pairs, forward computes 1, ours, forward 2." in output


def test_cases_are_skipped_once_the_time_is_used(fake_workers, capsys):
    assert main(["gpu", "--small", "--only", "normalizers 4", "--max-seconds", "-1"]) == 0
    assert f"Skipped, the time was used: {CASE}." in capsys.readouterr().out


@pytest.mark.thorough
def test_all_rows_of_a_small_run_give_numbers(tmp_path):
    pytest.importorskip("jax", reason="JAX is not installed: the GPU benchmark is NOT run")
    path = tmp_path / "gpu.json"
    only = ["normalizers 2", "additive 2", "heads 2", "decoding RNNsearch, batch 1", "training"]
    words = ["gpu", "--small", "--repeats", "1", "--workers", "1", "--json", str(path)]
    subprocess.run(
        [sys.executable, "-m", "benchmarks", *words, "--only", *only],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        check=True,
        timeout=300,
    )
    report = json.loads(path.read_text())
    assert [row for row in report["rows"] if "error" in row] == []
    assert [note for note in report["notes"] if "computes" in note] == []
    assert len(report["rows"]) > 30
