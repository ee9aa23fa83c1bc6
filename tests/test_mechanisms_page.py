"""The page of mechanisms names every public layer, once, with an example that can be made."""

import inspect
import pathlib
import re

import keras
import pytest

import keras_attention
from keras_attention import search

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "mechanisms.md"
HEADINGS = ["layer", "equation", "take it when", "time", "memory", "paper", "example"]
INTERFACES = {"AttentionMechanism", "Decoder", "Normalizer", "RecurrentDecoder", "Scorer"}


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" |")]


def rows():
    """Returns the cells of every row of the tables of layers."""
    found, inside = [], False
    for line in PAGE.read_text().splitlines():
        cells = _cells(line) if line.startswith("|") else []
        if cells == HEADINGS:
            inside = True
        elif not cells:
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    return found


ROWS = pytest.mark.parametrize("cells", rows(), ids=lambda cells: cells[0].strip("`"))


def test_the_page_names_every_public_layer_once():
    named = [cells[0].strip("`") for cells in rows()]
    public = {
        name
        for name in keras_attention.__all__
        if inspect.isclass(getattr(keras_attention, name)) and name not in search.__all__
    }
    assert sorted(named) == sorted(public - INTERFACES)


def test_the_page_names_the_functions_and_the_interfaces():
    text = PAGE.read_text()
    listed = set(re.findall(r"`(\w+)`", text[text.index("Functions:") :].split("\n\n")[0]))
    functions = {
        name
        for name in keras_attention.__all__
        if inspect.isfunction(getattr(keras_attention, name)) and name not in search.__all__
    }
    assert listed == functions | INTERFACES


def test_the_page_names_the_searches():
    text = PAGE.read_text()
    line = text[text.index("Searches:") :].partition(";")[0]
    assert sorted(re.findall(r"`(\w+)`", line)) == sorted(search.__all__)


@ROWS
def test_a_row_is_complete(cells):
    assert len(cells) == len(HEADINGS), cells
    assert cells[1] and cells[2] and cells[6], "equation, use and example"


@ROWS
def test_the_example_of_a_row_makes_the_layer(cells):
    names = {name: getattr(keras_attention, name) for name in keras_attention.__all__}
    made = eval(cells[6].strip("`"), {"keras": keras, **names})  # our own page
    assert type(made).__name__ == cells[0].strip("`")
