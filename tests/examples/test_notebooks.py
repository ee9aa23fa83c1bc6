"""Every notebook is what its page says, is stored with its outputs, and runs from end to end."""

import ast
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from test_readme import PRIVATE

from examples.notebooks import running, source

PAGES = {page.stem: page for page in source.pages()}
DATES = {"LOCALES": ["en_US", "de_DE"], "TEXTS": 128, "UNITS": 8, "EPOCHS": 1}
NUMBERS = {"NUMBERS": 256, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1}
#: What makes a run of each notebook short: values for its parameters.
SHORT = {
    "00_start_here": {"UNITS": 8, "SENTENCES": 200, "EPOCHS": 1},
    "attention_over_attention": {"QUESTIONS": 64, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1},
    "convs2s": {**NUMBERS, "ENCODER_LAYERS": 1, "DECODER_LAYERS": 1},
    "han": {"DOCUMENTS": 200, "EMBEDDING_DIM": 8, "UNITS": 4, "EPOCHS": 1},
    "lstmn": {
        "LINES": 200,
        "NOISE": 6,
        "UNITS": 8,
        "LSTM_UNITS": 8,
        "EMBEDDING_DIM": 8,
        "EPOCHS": 1,
    },
    "luong_local": {"WORDS": 128, "UNITS": 8, "EMBEDDING_DIM": 8, "EPOCHS": 1},
    "memory_network": {"STORIES": 200, "EPOCHS": 3, "LINEAR_EPOCHS": 1},
    "mixed": {
        "NUMBERS": 256,
        "ENCODERS": ("cnn", "lstmn"),
        "UNITS": 8,
        "LAYERS": 1,
        "EPOCHS": 1,
    },
    "ntm_copy": {
        "MAX_LENGTH": 3,
        "SLOTS": 16,
        "LSTM_UNITS": 8,
        "UPDATES": 20,
        "EPOCHS": 2,
        "LENGTHS": (3, 5),
    },
    "ram_and_draw": {
        "UNITS": 8,
        "COPIES": 1,
        "GLIMPSES": 2,
        "RAM_EPOCHS": 1,
        "STEPS": 2,
        "DRAW_EPOCHS": 1,
    },
    "rnn_encoder_decoder": NUMBERS,
    "rnnsearch_dates": {**DATES, "EMBEDDING_DIM": 8},
    "seq2seq": {**NUMBERS, "LAYERS": 1},
    "show_attend_tell": {"SCENES": 100, "UNITS": 8, "EPOCHS": 1},
    "text_guided": {
        "SCENES": 100,
        "UNITS": 8,
        "ATTENTION_UNITS": 8,
        "READING_EPOCHS": 1,
        "EPOCHS": 1,
    },
    "transformer_dates": {**DATES, "LAYERS": 1, "HEADS": 2, "RNN_EPOCHS": 1},
}
#: Packages that a page may import besides the standard library.
PUBLIC = {
    "babel",
    "keras",
    "keras_attention",
    "matplotlib",
    "numpy",
    "sacrebleu",
    "sklearn",
    "tensorflow",
}


@pytest.fixture(scope="session")
def wheel_folder(tmp_path_factory):
    """Returns the folder that a wheel of the checkout is installed in.

    The wheel is built from a copy, so that several processes can build at once.
    """
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("keras_attention", "export"):
        shutil.copytree(running.CHECKOUT / name, folder / "source" / name, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(running.CHECKOUT / name, folder / "source")
    build = ["build", "--wheel", "--outdir", folder / "dist", folder / "source"]
    subprocess.run([sys.executable, "-m", *build], check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    install = ["pip", "install", "--quiet", "--no-deps", "--target", folder / "installed", wheel]
    subprocess.run([sys.executable, "-m", *install], check=True)
    return folder / "installed"


def read_notebook(name):
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
    page, notebook = source.read(PAGES[name]), read_notebook(name)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in page.cells], (
        f"build it again: python -m examples.notebooks {name}"
    )
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in page.cells]
    assert notebook.metadata == page.metadata


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_was_run_once_from_top_to_bottom(name):
    cells = [cell for cell in read_notebook(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_shows_texts_and_pictures_and_no_warnings(name):
    notebook = read_notebook(name)
    assert_clean(notebook)
    kinds = {kind for output in outputs(notebook) for kind in output.get("data", {})}
    assert "image/png" in kinds
    assert any(output.output_type == "stream" for output in outputs(notebook))
    assert len(PAGES[name].with_suffix(".ipynb").read_bytes()) < 2**20


@pytest.mark.parametrize("name", PAGES)
def test_a_stored_notebook_names_no_folder_of_one_machine(name):
    notebook = read_notebook(name)
    sources = [cell.source for cell in notebook.cells]
    shown = [text for output in outputs(notebook) for text in texts(output)]
    assert [text for text in sources + shown if PRIVATE.search(text)] == []


def imports(notebook):
    """Returns the top-level packages that the cells of a notebook import."""
    found = set()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # lines that begin with % or ! are IPython's
            code = re.sub(r"^([ \t]*)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE)
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.Import):
                    found |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found.add("." if node.level else node.module.split(".")[0])
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_imports_public_packages_alone(name):
    page = source.read(PAGES[name])
    assert imports(page) - PUBLIC - set(sys.stdlib_module_names) == set()
    assert not any("sys.path" in cell.source for cell in page.cells)


def test_imports_of_a_page_are_found():
    text = "import os.path, examples.models as m\nif m:\n    !pip\nfrom babel.core import x\n%a"
    assert imports(source.parse(f"```python\n{text}\n```")) == {"os", "examples", "babel"}


def check_import(folder):
    """Returns a cell that fails unless `keras_attention` was imported from a folder."""
    return nbformat.v4.new_code_cell(
        "import pathlib\nimport keras_attention\n"
        f"assert pathlib.Path(keras_attention.__file__).is_relative_to({str(folder)!r}), "
        "keras_attention.__file__"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_runs_from_end_to_end(name, wheel_folder):
    page = source.read(PAGES[name])
    for cell in page.cells:  # XLA's compiling would take most of the time of so short a run
        cell.source = cell.source.replace("jit_compile=True", "jit_compile=False")
    page.cells.append(check_import(wheel_folder))
    notebook = running.execute(page, minutes=10, library=wheel_folder, **SHORT[name])
    assert_clean(notebook)
    assert len(outputs(notebook)) >= len(outputs(read_notebook(name)))


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


def test_remarks_on_the_machine_are_dropped_and_other_errors_kept():
    remark, error = "I0000 1 2 cudart_stub.cc:31] no CUDA\n", "E0000 out of memory\n"
    outputs = [nbformat.v4.new_output("stream", name="stderr", text=text) for text in
               (remark, remark + error)]  # fmt: skip
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=outputs)])
    running.drop_remarks(notebook)
    assert [output.text for output in notebook.cells[0].outputs] == [error]


def test_a_cell_that_fails_says_which():
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        running.execute(source.parse("```python\n1 / 0\n```"))


def test_a_notebook_runs_in_an_empty_folder():
    code = "import os\nassert os.listdir() == []\nopen('new', 'w').close()\nprint('written')"
    notebook = running.execute(source.parse(f"```python\n{code}\n```"))
    assert [output.text for output in outputs(notebook)] == ["written\n"]


@pytest.mark.parametrize("is_right", [True, False])
def test_a_notebook_imports_the_library_that_is_named(tmp_path, is_right):
    from nbclient.exceptions import CellExecutionError

    package = tmp_path / "keras_attention"
    package.mkdir()
    (package / "__init__.py").touch()
    page = source.parse("```python\npass\n```")
    page.cells.append(check_import(tmp_path if is_right else running.CHECKOUT))
    if is_right:
        running.execute(page, library=tmp_path)
    else:
        with pytest.raises(CellExecutionError, match="AssertionError"):
            running.execute(page, library=tmp_path)


def test_remarks_of_the_machine_are_dropped_and_other_errors_stay():
    notebook = source.parse("```python\npass\n```")
    lines = "I0000 cudart_stub.cc:31] no GPU\n", "a real error\n"
    notebook.cells[0].outputs = [
        nbformat.v4.new_output("stream", name="stderr", text=text)
        for text in (lines[0], "".join(lines))
    ]
    running.drop_remarks(notebook)
    assert [output.text for output in outputs(notebook)] == ["a real error\n"]
