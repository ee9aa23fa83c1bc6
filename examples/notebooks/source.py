"""Pages of Markdown that become notebooks: what is fenced as `python` is a cell of code.

    ```python             a cell
    ```python parameters  the cell of the numbers that a shorter run may replace

All else is text. A page is read as it stands in reviews; its notebook holds the same text.
"""

import pathlib
import re

import nbformat
from nbformat import NotebookNode

FOLDER = pathlib.Path(__file__).parent
PARAMETERS = "parameters"
FENCED = re.compile(r"^```python[ \t]*(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def pages() -> list[pathlib.Path]:
    """Returns the pages that become notebooks."""
    return [page for page in sorted(FOLDER.glob("*.md")) if page.name != "README.md"]


def read(page: pathlib.Path) -> NotebookNode:
    """Returns the notebook of a page, not yet run."""
    return parse(page.read_text(encoding="utf-8"))


def parse(text: str) -> NotebookNode:
    """Returns the notebook of a page's text, not yet run.

    Raises:
        ValueError: If a fence has a tag that means nothing, or more than one is the parameters.

    Example:

    >>> notebook = parse("# Title\\n\\n```python\\nx = 1\\n```\\n\\nMore.\\n")
    >>> [(cell.cell_type, cell.source) for cell in notebook.cells]
    [('markdown', '# Title'), ('code', 'x = 1'), ('markdown', 'More.')]
    """
    cells, end = [], 0
    for fence in FENCED.finditer(text):
        cells.append(nbformat.v4.new_markdown_cell(text[end : fence.start()].strip()))
        cells.append(nbformat.v4.new_code_cell(fence[2].strip("\n")))
        if fence[1]:
            cells[-1].metadata["tags"] = [fence[1]]
        end = fence.end()
    cells.append(nbformat.v4.new_markdown_cell(text[end:].strip()))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not drawn, so that building again changes nothing
    tags = [tag for cell in cells for tag in cell.metadata.get("tags", ())]
    if set(tags) - {PARAMETERS} or len(tags) > 1:
        raise ValueError(
            "A page expects fences of `python` and at most one of `python parameters`. "
            f"Received: tags={tags}"
        )
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
