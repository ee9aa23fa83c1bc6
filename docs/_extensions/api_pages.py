"""Writes a page for each public name, and the index of them, into `docs/api/`."""

import importlib
import inspect
import pathlib

PACKAGES = {
    "keras_attention": "Layers, decoders and losses",
    "keras_attention.search": "Searches",
    "keras_attention.metrics": "Metrics",
    "keras_attention.callbacks": "Callbacks",
    "keras_attention.data": "Training data",
    "keras_attention.plotting": "Figures",
    "keras_attention.export": "Export and serving",
    "keras_attention.export.tokenizers": "Tokenizers",
    "keras_attention.export.serving": "Clients and the development server",
    "keras_attention.ntm": "Functions of the Neural Turing Machine",
    "keras_attention.decoders": "Functions for decoders of your own",
    "keras_attention.scorers": "Scorers by name",
    "keras_attention.normalizers": "Normalizers by name",
    "keras_attention.recurrent": "Functions of recurrent layers",
    "keras_attention.convolutional": "Functions of convolutional layers",
}


def write_pages(app) -> None:
    """Writes the pages anew; a page whose text has not changed is left alone."""
    folder = pathlib.Path(app.srcdir) / "docs" / "api"
    folder.mkdir(exist_ok=True)
    written, index, documented = set(), ["# API reference", ""], set()

    def write(path, text):
        written.add(path)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    for package, title in PACKAGES.items():
        module = importlib.import_module(package)
        rows = []
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in documented:
                continue
            documented.add(id(value))
            page = f"{package}.{name}"
            write(folder / f"{page}.rst", _make_page(package, name, value))
            summary = (inspect.getdoc(value) or "").split("\n")[0] if callable(value) else ""
            rows.append((name, page, summary))
        index += [f"## {title}", "", f"In `{package}`.", "", "| name | what it is |", "|---|---|"]
        index += [f"| [{name}]({page}.rst) | {summary} |" for name, page, summary in rows]
        index += ["", "```{toctree}", ":hidden:", "", *(page for _, page, _ in rows), "```", ""]
    write(folder / "index.md", "\n".join(index))
    for path in set(folder.iterdir()) - written:
        path.unlink()


def _make_page(package, name, value):
    """Returns the reStructuredText of the page of a name."""
    if inspect.isclass(value):
        methods = _list_methods(value)
        directive, options = "autoclass", ["   :members: " + ", ".join(methods)] if methods else []
    elif callable(value):
        directive, options = "autofunction", []
    else:
        directive, options = "data", ["", f"   ``{value!r}``"]
    lines = [name, "=" * len(name), "", f".. currentmodule:: {package}", ""]
    if package != "keras_attention":
        # A page of sources links to all of its names as if they were in one package.
        anchor = f'<span id="keras_attention.{name}"></span>'
        lines += [".. raw:: html", "", f"   {anchor}", ""]
    return "\n".join([*lines, f".. {directive}:: {name}", *options, ""])


def _list_methods(value):
    """Returns the names of the documented methods, inherited ones too, but not those of Keras."""
    ours = [one for one in value.__mro__ if one.__module__.startswith("keras_attention")]
    names = dict.fromkeys(
        name
        for one in reversed(ours)
        for name, member in vars(one).items()
        if not name.startswith("_") and getattr(member, "__doc__", None)
        if inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod, property))
    )
    return list(names)


def write_signature(app, what, name, value, options, signature, return_annotation):
    """Returns the arguments of a class's constructor, as autodoc's event asks.

    Keras' layers have a `__new__`, of which autodoc would show `*args, **kwargs`.
    """
    if what != "class" or not inspect.isfunction(value.__init__):
        return None
    parameters = list(inspect.signature(value.__init__).parameters.values())[1:]
    shown = [one.replace(annotation=one.empty) for one in parameters if one.kind != one.VAR_KEYWORD]
    return str(inspect.Signature(shown)), None


def setup(app):
    """Connects the extension to Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-signature", write_signature)
    return {"parallel_read_safe": True}
