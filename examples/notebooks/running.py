"""Runs notebooks from the first cell to the last, in a fresh process and an empty folder."""

import ast
import os
import pathlib
import tempfile

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from examples.notebooks.source import FOLDER, METADATA, PARAMETERS
from examples.tf_logging import REMARKS

# oneDNN remarks on older processors that it does without, and rounds in its own way.
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0"}


CHECKOUT = FOLDER.parent.parent


def execute(
    notebook: NotebookNode,
    minutes: float = 30.0,
    library: pathlib.Path = CHECKOUT,
    **parameters,
) -> NotebookNode:
    """Returns a notebook with its outputs; it runs in an empty folder that is deleted afterwards.

    Args:
        notebook: The notebook, as `source.read` returns it.
        minutes: The longest that a cell may take.
        library: The folder that `keras_attention` is imported from: the checkout, or the
            folder of an installed wheel.
        **parameters: Values for names that its cell of parameters assigns, in place of those.

    Raises:
        ValueError: If the notebook has no parameter of such a name.
        nbclient.exceptions.CellExecutionError: If a cell fails.
    """
    notebook = with_parameters(notebook, **parameters)
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(library)}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            kernel_name=METADATA["kernelspec"]["name"],
            timeout=int(60 * minutes),
            resources={"metadata": {"path": folder}},
            coalesce_streams=True,
            record_timing=False,
        )
        client.execute(env=environment)
    drop_remarks(notebook)
    notebook.metadata.update(METADATA)  # without the version of the Python that ran it
    return notebook


def drop_remarks(notebook: NotebookNode) -> None:
    """Removes TensorFlow's remarks on the machine, which no setting suppresses, from the outputs.

    Every other line of the error stream stays.
    """
    for cell in notebook.cells:
        for output in list(cell.get("outputs", ())):
            if output.get("name") != "stderr":
                continue
            lines = output.text.splitlines(keepends=True)
            kept = [line for line in lines if not any(remark in line for remark in REMARKS)]
            output.text = "".join(kept)
            if not output.text.strip():
                cell.outputs.remove(output)


def with_parameters(notebook: NotebookNode, **parameters) -> NotebookNode:
    """Returns a copy in which a cell after that of the parameters gives some of them new values.

    Raises:
        ValueError: If the notebook has no parameter of such a name.

    Example:

    >>> from examples.notebooks.source import parse
    >>> notebook = parse("```python parameters\\nUPDATES = 5000\\n```\\n")
    >>> [cell.source for cell in with_parameters(notebook, UPDATES=10).cells]
    ['UPDATES = 5000', 'UPDATES = 10']
    """
    notebook = nbformat.from_dict(notebook)
    if not parameters:
        return notebook
    places = [
        place
        for place, cell in enumerate(notebook.cells)
        if PARAMETERS in cell.metadata.get("tags", ())
    ]
    known = {
        name for place in places for name in _find_assigned_names(notebook.cells[place].source)
    }
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ValueError(
            f"The notebook's cell of parameters assigns {', '.join(sorted(known)) or 'nothing'}. "
            f"Received: {unknown[0]}={parameters[unknown[0]]!r}"
        )
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    cell = nbformat.v4.new_code_cell("\n".join(lines), id="given-parameters")
    notebook.cells.insert(places[0] + 1, cell)
    return notebook


def _find_assigned_names(code):
    """Returns the names that a cell assigns."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    return {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
