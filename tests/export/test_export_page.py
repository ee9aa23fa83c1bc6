"""The complete example of docs/export.md works as it stands: it learns, and its export loads."""

import pathlib
import re

import pytest
import tensorflow as tf

from keras_attention.export import _version_writer, validate_export

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "export.md").read_text()
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
(PROGRAM,) = [code for code in EXAMPLES if "export_translator(" in code]
(PHRASES,) = [code for code in EXAMPLES if "phrases=" in code]


@pytest.mark.thorough
def test_the_complete_example_learns_and_exports(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Half a minute more, and other tests hold it.
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    names = {}
    exec(PROGRAM, names)
    assert "['a dog']" in capsys.readouterr().out
    exec(PHRASES, names)
    version = tmp_path / "served" / "de-en" / "1"
    assert names["path"].resolve() == version and validate_export(version) == []
    listed = PAGE.partition("## What is written")[2].partition("##")[0]
    assert all(file.stem in listed for file in (version / "assets.extra").iterdir())
    served = tf.saved_model.load(str(version)).signatures["greedy"]
    assert served(text=tf.constant(["eine katze"]))["text"].numpy().tolist() == [b"a cat"]
