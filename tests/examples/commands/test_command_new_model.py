"""A newcomer's model: one file and one row, and every command knows it."""

import importlib.util
import json
import pathlib
import re

import pytest

from examples import registry
from examples.recipes.language import Language

PAGE = pathlib.Path(__file__).parents[3] / "examples" / "README.md"


@pytest.fixture
def bag(tmp_path, monkeypatch):
    path = tmp_path / "bag_of_words.py"
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path.write_text(code[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("bag_of_words", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    row = registry.RegisteredModel("bag-of-words", module, Language)
    monkeypatch.setitem(registry.MODELS, "bag-of-words", row)


@pytest.mark.thorough
def test_a_model_is_one_file_and_one_row(bag, command, tmp_path):
    assert "bag-of-words" in command("list")[1]
    status, told, _ = command("train", "bag-of-words", "--help")
    assert status == 0 and "size of the embedding (default: 8)" in told
    text = tmp_path / "text"
    text.write_text("a dog runs .\nno dog sleeps .\n" * 40)
    run = tmp_path / "run"
    files = ["--text", text, "--validation-text", text]
    options = ["--units", 5, "--epochs", 5, "--batch-size", 8, "--learning-rate", 0.1]
    status, _, err = command("train", "bag-of-words", "--run", run, *files, *options)
    assert (status, err) == (0, "")
    assert json.loads((run / "run.json").read_text())["model_options"] == {"units": 5}
    numbers = tmp_path / "numbers.json"
    assert command("evaluate", run, "--text", text, "--json", numbers)[0] == 0
    # One bit for a line of five tokens is 2 ** 0.2; all ten ids would be 10.
    assert json.loads(numbers.read_text())["perplexity"] < 2
    status, _, err = command("plot", run, "--output-dir", tmp_path / "figures", "a dog .")
    assert status == 1 and "no attention" in err
    assert command("export", run, tmp_path / "served")[0] == 0
