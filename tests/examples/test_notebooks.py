"""Every notebook is what its page says, is stored with its outputs, and runs from end to end."""

import nbformat
import pytest
from test_readme import PRIVATE

from examples.notebooks import running, source

PAGES = {page.stem: page for page in source.pages()}
DATES = {"LOCALES": ["en-US"], "TEXTS": 6000, "UNITS": 8, "EPOCHS": 1}
NUMBERS = {"NUMBERS": 256, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1}
#: What makes a run of each notebook short: values for its parameters.
SHORT = {
    "00_start_here": {"UNITS": 8, "SENTENCES": 200, "EPOCHS": 1},
    "attention_over_attention": {"QUESTIONS": 200, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1},
    "convs2s": {**NUMBERS, "ENCODER_LAYERS": 1, "DECODER_LAYERS": 1},
    "han": {"DOCUMENTS": 200, "EMBEDDING_DIM": 8, "UNITS": 4, "EPOCHS": 1},
    "lstmn": {"LINES": 200, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1},
    "luong_local": {"WORDS": 100, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1},
    "memory_network": {"STORIES": 200, "EPOCHS": 3, "LINEAR_EPOCHS": 1},
    "mixed": {**NUMBERS, "ENCODERS": ("cnn", "lstmn"), "LAYERS": 1},
    "ntm_copy": {"LONGEST": 3, "SLOTS": 16, "UPDATES": 20, "EPOCHS": 2, "LENGTHS": (3, 5)},
    "ram_and_draw": {
        "PICTURES": 100,
        "GLIMPSES": 2,
        "RAM_UNITS": 8,
        "RAM_EPOCHS": 1,
        "STEPS": 2,
        "DRAW_UNITS": 8,
        "DRAW_EPOCHS": 1,
    },
    "rnn_encoder_decoder": NUMBERS,
    "rnnsearch_dates": {**DATES, "EMBEDDING_DIM": 8},
    "seq2seq": {**NUMBERS, "LAYERS": 1},
    "show_attend_tell": {"PICTURES": 100, "UNITS": 8, "UPDATES": 4, "EPOCHS": 1},
    "text_guided": {
        "PICTURES": 100,
        "UNITS": 8,
        "UPDATES": 4,
        "READING_EPOCHS": 1,
        "EPOCHS": 1,
    },
    "transformer_dates": {**DATES, "LAYERS": 1, "HEADS": 2},
}


def stored(name):
    return nbformat.read(PAGES[name].with_suffix(".ipynb"), as_version=4)


def outputs(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [output for cell in cells for output in cell.outputs]


def texts(output):
    """Returns what an output says, without its pictures."""
    if output.output_type == "stream":
        return [output.text]
    data = output.get("data", {})
    return ["".join(text) for kind, text in data.items() if kind.startswith("text/")]


def assert_clean(notebook):
    """Asserts that no cell failed, warned or wrote to the error stream."""
    for output in outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
        assert not any("Warning" in text for text in texts(output)), texts(output)


def test_every_page_has_its_notebook_and_every_notebook_its_page():
    assert PAGES
    assert {path.stem for path in source.FOLDER.glob("*.ipynb")} == set(PAGES) == set(SHORT)


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_holds_the_cells_of_its_page(name):
    page, notebook = source.read(PAGES[name]), stored(name)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in page.cells], (
        f"build it again: python -m examples.notebooks {name}"
    )
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in page.cells]
    assert notebook.metadata == page.metadata


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_was_run_once_from_top_to_bottom(name):
    cells = [cell for cell in stored(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_shows_texts_and_pictures_and_no_warnings(name):
    notebook = stored(name)
    assert_clean(notebook)
    kinds = {kind for output in outputs(notebook) for kind in output.get("data", {})}
    assert "image/png" in kinds
    assert any(output.output_type == "stream" for output in outputs(notebook))
    assert len(PAGES[name].with_suffix(".ipynb").read_bytes()) < 2**20


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_names_no_folder_of_one_machine(name):
    notebook = stored(name)
    sources = [cell.source for cell in notebook.cells]
    shown = [text for output in outputs(notebook) for text in texts(output)]
    assert [text for text in sources + shown if PRIVATE.search(text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_runs_from_end_to_end(name):
    notebook = running.executed(source.read(PAGES[name]), minutes=5, **SHORT[name])
    assert_clean(notebook)
    assert len(outputs(notebook)) >= len(outputs(stored(name)))


def test_text_and_code_become_cells_in_order():
    notebook = source.parse("# A\n\n```python\nx = 1\n\ny = 2\n```\n```python\nz\n```\n")
    nbformat.validate(notebook)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("markdown", "# A"),
        ("code", "x = 1\n\ny = 2"),
        ("code", "z"),
    ]


def test_other_fences_and_inline_code_stay_text():
    text = "```sh\nmake\n```\n\n`python` and ```python```"
    assert [cell.cell_type for cell in source.parse(text).cells] == ["markdown"]


def test_parameters_are_given_after_the_cell_that_sets_them():
    notebook = source.parse("```python parameters\nA, B = 1, 2\nC = 3\n```\n```python\nC\n```\n")
    given = running.with_parameters(notebook, B=5, C=(4, "x"))
    assert [cell.source for cell in given.cells[1:]] == ["B = 5\nC = (4, 'x')", "C"]
    assert len(notebook.cells) == 2, "the notebook itself is left alone"
    nbformat.validate(given)
    assert running.with_parameters(notebook) == notebook


@pytest.mark.parametrize("text", ["```python parameters\nA = 1\n```", "```python\nB = 1\n```", ""])
def test_an_unknown_parameter_is_refused(text):
    with pytest.raises(ValueError, match=r"assigns (A|nothing)\. Received: B=7"):
        running.with_parameters(source.parse(text), B=7)


@pytest.mark.parametrize("tags", [["reduced"], ["parameters", "parameters"]])
def test_an_unknown_or_second_tag_is_refused(tags):
    text = "\n".join(f"```python {tag}\nA = 1\n```" for tag in tags)
    with pytest.raises(ValueError, match=f"at most one of .*Received: tags=.*{tags[0]}"):
        source.parse(text)


def test_a_cell_that_fails_says_which():
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        running.executed(source.parse("```python\n1 / 0\n```"))
