"""The guide to decoding: its examples run, and it names every public function."""

import pathlib
import re

import pytest

import keras_attention.search

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "decoding.md"


@pytest.fixture(scope="module")
def text():
    if not PAGE.exists():
        pytest.skip("docs/ is not part of an installed copy")
    return PAGE.read_text()


@pytest.mark.thorough
def test_the_examples_run(text):
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 6
    exec(compile("\n".join(examples), str(PAGE), "exec"), {})


@pytest.mark.parametrize("name", keras_attention.search.__all__)
def test_the_guide_names_everything_public(text, name):
    assert re.search(rf"`{name}[`(]", text)
