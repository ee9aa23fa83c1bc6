"""Links the public names in docstrings, written between backticks, to their pages."""

import importlib
import inspect
import re

from api_pages import PACKAGES

#: A name alone between single backticks, which is no role's.
QUOTED = re.compile(r"(?<![`:\w])`([A-Za-z]\w+)`(?!`)")


def find_targets() -> dict[str, str]:
    """Returns the full name of each class and function, by the name that a docstring has for it.

    Names that are also those of arguments, and names of one word in lower case, such as `train`
    and `get`, mean other things too; they have none.
    """
    targets, arguments = {}, set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                targets.setdefault(name, f"{package}.{name}")
            called = value.__init__ if inspect.isclass(value) else value
            if inspect.isfunction(called):
                arguments.update(inspect.signature(called).parameters)
    is_word = re.compile("[a-z]+").fullmatch
    return {
        name: target
        for name, target in targets.items()
        if name not in arguments and not is_word(name)
    }


def link_names(app, what, name, value, options, lines: list[str]) -> None:
    """Rewrites the quoted names of a docstring, as autodoc's event asks."""

    def link(match):
        target = TARGETS.get(match[1])
        return f":py:obj:`{match[1]} <{target}>`" if target else match[0]

    lines[:] = [QUOTED.sub(link, line) for line in lines]


TARGETS = find_targets()


def setup(app):
    """Connects the extension to Sphinx, after inherited call arguments came in."""
    app.connect("autodoc-process-docstring", link_names, priority=450)
    return {"parallel_read_safe": True}
