"""`python -m benchmarks gpu --compile`: how launches are counted, what is printed and refused."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.gpu import compile, hlo
from benchmarks.harness import BenchmarkError

PROGRAM = """HloModule jit_run, is_scheduled=true

%fused (param: f32[5]) -> f32[5] {
  %param = f32[5]{0} parameter(0)
  ROOT %copy.1 = f32[5]{0} copy(%param)
}

%few (arg.1: f32[5]) -> f32[5] {
  %arg.1 = f32[5]{0} parameter(0)
  ROOT %copy.2 = f32[5]{0} copy(%arg.1)
}

%many (arg.2: f32[5]) -> f32[5] {
  %arg.2 = f32[5]{0} parameter(0)
  %product = f32[5]{0} custom-call(%arg.2), custom_call_target="__cublas$gemm"
  %again = f32[5]{0} custom-call(%product), custom_call_target="__cublas$gemm"
  ROOT %sum = f32[5]{0} fusion(%again), kind=kLoop, calls=%fused
}

%body (state: (s32[], f32[5])) -> (s32[], f32[5]) {
  %state = (s32[], f32[5]{0}) parameter(0)
  %value = f32[5]{0} get-tuple-element(%state), index=1
  %next = f32[5]{0} fusion(%value), kind=kLoop, calls=%fused
  %chosen = f32[5]{0} conditional(%choice, %next, %next), branch_computations={%few, %many}
  ROOT %both = (s32[], f32[5]{0}) tuple(%count, %chosen)
}

%sorted (arg.3: f32[5]) -> f32[5] {
  %arg.3 = f32[5]{0} parameter(0)
  ROOT %order = f32[5]{0} sort(%arg.3), dimensions={0}, to_apply=%compare
}

ENTRY %main (x: f32[5]) -> f32[5] {
  %x = f32[5]{0} parameter(0)
  %ordered = f32[5]{0} call(%x), to_apply=%sorted
  %start = (s32[], f32[5]{0}) tuple(%zero, %ordered)
  %loop = (s32[], f32[5]{0}) while(%start), condition=%until, body=%body
  ROOT %end = f32[5]{0} get-tuple-element(%loop), index=1
}
"""
CASE = "normalizers 4 x 1 x 20, float32"


def test_loops_branches_and_calls_are_counted():
    # A turn is a fusion and the one or three launches of a branch; the sort comes before.
    found = hlo.count_launches(PROGRAM, turns=7)
    assert found == hlo.Launches(total=1 + 7 * 4, at_least=1 + 7 * 2, a_turn=4, conditionals=1)


def test_a_known_number_of_turns_counts():
    known = PROGRAM.replace(
        "body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"3"}}'
    )
    assert hlo.count_launches(known, turns=7).total == 1 + 3 * 4


def test_a_program_without_a_loop_has_no_turn():
    text = PROGRAM.replace("%loop = (s32[], f32[5]{0}) while", "%loop = f32[5]{0} copy")
    assert hlo.count_launches(text) == hlo.Launches(2, 2, None, 0)


class FakeWorker:
    """Compiles at once; entmax fails, and sparsemax ends the process."""

    def __init__(self, library, environment):
        assert library == "h100" and environment["BENCHMARKS_HLO"] in environment["XLA_FLAGS"]

    def ask(self, seconds, **request):
        if request["do"] != "build":
            return {}
        (name,) = request["sides"]
        if "sparsemax" in name:
            raise BenchmarkError("the process ended: killed")
        if "entmax" in name:
            return {name: {"error": "ValueError: no | such form"}}
        counts = {"launches": 1200, "launches_at_least": 1000, "launches_a_turn": 4}
        return {name: {**counts, "conditionals_in_loops": 0, "extra_bytes": 3e6}}

    def stop(self):
        pass


@pytest.fixture
def fake_workers(monkeypatch):
    monkeypatch.setattr(compile, "Worker", FakeWorker)
    monkeypatch.setattr(compile.importlib.util, "find_spec", lambda name: name)


def test_a_program_that_fails_leaves_the_others(fake_workers, tmp_path, capsys):
    path = tmp_path / "compiled.json"
    words = ["gpu", "--compile", "--small", "--only", "normalizers 4", "--json", str(path)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"| {CASE} | softmax | forward | 1,000 to 1,200 | 4 | 0 | 3 MB | 1.5 L |" in lines
    assert "|  | entmax 1.5 | forward | failed | ValueError: no / such form |  |  |  |" in lines
    rows = {(row["side"], row["what"]): row for row in json.loads(path.read_text())["rows"]}
    assert "killed" in rows["sparsemax", "both"]["error"]
    assert rows["softmax", "both"]["floor_seconds"] == pytest.approx(0.0015)


def test_cases_are_skipped_once_the_time_is_used(fake_workers, capsys):
    words = ["gpu", "--compile", "--small", "--only", "normalizers 4", "--max-seconds", "-1"]
    assert main(words) == 0
    assert f"Skipped, the time was used: {CASE}." in capsys.readouterr().out


def test_the_compiler_must_be_installed(monkeypatch, capsys):
    monkeypatch.setattr(compile.importlib.util, "find_spec", lambda name: None)
    assert main(["gpu", "--compile", "--small"]) == 1
    assert '"jax[cuda12]==0.7' in capsys.readouterr().err
