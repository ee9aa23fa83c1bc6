"""Writes the gallery of notebooks, `docs/tutorials/`, and the pages of the explorer.

Thumbnails are the notebooks' stored figures. The explorer's data is in `docs/images/`.
"""

import base64
import io
import json
import pathlib
import re

import nbformat
from PIL import Image, ImageOps

from keras_attention.plotting import ExplorerPage

SIZE = (320, 200)
#: A row of the table in `examples/notebooks/README.md`: notebook, paper, what it shows.
ROW = re.compile(r"^\| \[(\w+)\]\(\1\.ipynb\) \| (.*?) ?\| (.*) \|$", re.MULTILINE)


def find_figures(notebook: nbformat.NotebookNode) -> list[Image.Image]:
    """Returns the figures that are stored in the outputs of a notebook."""
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    stored = [one.data["image/png"] for one in outputs if "image/png" in one.get("data", ())]
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in stored]


def make_thumbnail(figures: list[Image.Image]) -> Image.Image:
    """Returns the largest figure of usual proportions, or the narrowest, small and on white."""
    fitting = [one for one in figures if 1 <= one.width / one.height <= 3]
    narrow = min(figures, key=lambda one: one.width / one.height)
    best = max(fitting, key=lambda one: one.width * one.height, default=narrow).convert("RGBA")
    white = Image.new("RGBA", best.size, "white")
    return ImageOps.pad(Image.alpha_composite(white, best).convert("RGB"), SIZE, color="white")


def write_gallery(app) -> None:
    """Writes the page and the images anew; what has not changed is left alone."""
    root = pathlib.Path(app.srcdir)
    notebooks, folder = root / "examples" / "notebooks", root / "docs" / "tutorials"
    folder.mkdir(exist_ok=True)
    items = []
    for name, paper, shown in ROW.findall((notebooks / "README.md").read_text(encoding="utf-8")):
        notebook = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
        with io.BytesIO() as stream:
            make_thumbnail(find_figures(notebook)).quantize(64).save(stream, "png", optimize=True)
            _write(folder / f"{name}.png", stream.getvalue())
        target = f"../../examples/notebooks/{name}.ipynb"
        items.append(
            f"* [![]({name}.png) {title}]({target})\n\n  {paper + ': ' if paper else ''}{shown}\n"
        )
    intro = (
        "# Tutorials\n\nEach is a notebook that follows a paper, runs in minutes on a laptop and "
        "is stored with its outputs. [How to run them](../../examples/notebooks/README.md).\n"
    )
    page = "\n".join([intro, ":::{container} gallery", "", *items, ":::", ""])
    _write(folder / "index.md", page.encode())


def write_explorer(app, exception) -> None:
    """Writes the pages of the explorer into the built site."""
    if exception or app.builder.format != "html":
        return
    folder = pathlib.Path(app.outdir) / "explorer"
    folder.mkdir(exist_ok=True)
    for data in (pathlib.Path(app.srcdir) / "docs" / "images").glob("*.json"):
        page = ExplorerPage(**json.loads(data.read_text(encoding="utf-8")))
        page.save(folder / f"{data.stem}.html")


def _write(path, content):
    if not path.is_file() or path.read_bytes() != content:
        path.write_bytes(content)


def setup(app):
    """Connects the extension to Sphinx."""
    app.connect("builder-inited", write_gallery)
    app.connect("build-finished", write_explorer)
    return {"parallel_read_safe": True}
