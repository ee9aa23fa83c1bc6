"""`python -m benchmarks windows`: what is measured, and the ratios that are printed."""

import json

import numpy as np
import pytest

from benchmarks import windows
from benchmarks.__main__ import main


@pytest.mark.parametrize("layer", windows.LAYERS)
def test_every_side_computes_a_loss(layer):
    side = windows.window_side(2, 7, window=3, units=4, layer=layer, jit_compile=False)
    assert np.isfinite(side())


def test_the_ratios_are_to_the_short_length(monkeypatch, tmp_path, capsys):
    def measure_times(cases, repeats, *, threads, warmup, progress):
        seconds = {"quartile_seconds": [0.1, 0.2], "first_call_seconds": 3.0}
        return {
            case.name: {**seconds, "median_seconds": 0.1 * 3**index}
            for index, case in enumerate(cases)
        }

    def measure_memory(cases, repeats, *, threads, progress):
        return {
            case.name: {"median_extra_bytes": 200_000_000 * 4**index}
            for index, case in enumerate(cases)
        }

    monkeypatch.setattr(windows, "measure_times", measure_times)
    monkeypatch.setattr(windows, "measure_memory", measure_memory)
    path = tmp_path / "windows.json"
    assert main(["windows", "--layers", "self", "local-m", "--json", str(path)]) == 0
    rows = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    assert list(rows)[:2] == ["self, graph, 4,096", "self, graph, 16,384"] and len(rows) == 8
    assert rows["local-m, XLA, 16,384"]["time_ratio"] == pytest.approx(3)
    assert rows["local-m, XLA, 16,384"]["memory_ratio"] == pytest.approx(4)
    assert "Growing like the length would be 4.00" in capsys.readouterr().out
