"""The program of docs/quantization.md works as it stands."""

import pathlib

import pytest
from test_readme import python_blocks

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "quantization.md").read_text()


@pytest.mark.thorough
def test_the_lora_of_the_page_trains_its_updates_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (program,) = (code for code in python_blocks(PAGE) if "enable_lora" in code)
    exec(program, {})
    assert "['lora_kernel_a', 'lora_kernel_b']" in capsys.readouterr().out
    assert (tmp_path / "adapted.keras").is_file()
