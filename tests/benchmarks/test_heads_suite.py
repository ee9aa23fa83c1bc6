"""`python -m benchmarks heads`: its sides compute one number, and its ratios mean what they say."""

import json
import math

import pytest

from benchmarks import heads
from benchmarks.__main__ import main

SIZES = {"batch": 2, "queries": 5, "keys": 7, "width": 6, "heads": 3}
NAMES = ["ours, graph", "Keras, graph", "ours, XLA", "Keras, XLA", "PyTorch, eager"]


@pytest.mark.parametrize("keys", [5, 7])
def test_all_sides_compute_one_number(keys):
    sizes = {**SIZES, "keys": keys}
    values = [
        heads.keras_side(**sizes, owner=owner, jit_compile=compiled)()
        for owner, compiled in (("ours", False), ("Keras", False), ("ours", True))
    ]
    assert math.isfinite(values[0]) and values == pytest.approx([values[0]] * 3, rel=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16_rounds_products_alone(compiled):
    sizes = {**SIZES, "jit_compile": compiled}
    exact = heads.keras_side(**sizes, owner="ours")()
    rounded = [
        heads.keras_side(**sizes, owner=owner, dtype="bfloat16")() for owner in ("ours", "Keras")
    ]
    assert exact not in rounded and rounded == pytest.approx([exact] * 2, abs=0.3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0.0), ("bfloat16", 0.3)])
def test_the_peer_computes_it_too(monkeypatch, dtype, tolerance):
    pytest.importorskip("torch", reason="PyTorch is not installed: no peer to measure")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ours = heads.keras_side(**SIZES, owner="ours", jit_compile=False)()
    assert heads.torch_side(**SIZES, dtype=dtype)() == pytest.approx(ours, rel=1e-4, abs=tolerance)


def test_ratios_are_those_of_the_medians(monkeypatch, tmp_path, capsys):
    def measure_times(cases, repeats, *, threads, warmup, progress):
        assert [case.name for case in cases] == NAMES and repeats == 11
        medians = zip(cases, (1.0, 2.0, 4.0, 2.0, 3.0), strict=True)
        return {
            case.name: {
                "median_seconds": median,
                "quartile_seconds": [median, median],
                "fastest_seconds": median,
                "first_call_seconds": 9.0,
            }
            for case, median in medians
        }

    monkeypatch.setattr(heads, "measure_times", measure_times)
    path = tmp_path / "heads.json"
    assert main(["heads", "--json", str(path)]) == 0
    rows = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    assert [rows[name]["keras_ratio"] for name in NAMES] == [2, 1, 0.5, 1, None]
    assert [rows[name]["torch_ratio"] for name in NAMES] == [3, 1.5, 0.75, 1.5, 1]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ours, graph 1.000 s 1.000 to 1.000 s 1.000 s 2.00 3.00 9.000 s" in lines


def test_a_width_that_heads_do_not_divide_is_refused(capsys):
    assert main(["heads", "--width", "7", "--heads", "2"]) == 1
    assert "--width 7 is not a multiple of --heads 2" in capsys.readouterr().err
