"""Shows the signature of a layer's `call`, and explains its arguments, inherited ones too.

A docstring says `Call arguments: those of every mechanism, see ...`, so that it is read quickly
beside the code. On a page of its own each argument has its explanation.
"""

import inspect
import re

HEADER = re.compile(r"Call arguments:(.*)")
ITEM = re.compile(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*): ")


def split_section(lines: list[str]) -> tuple[int, int, list[str], dict[str, list[str]]]:
    """Returns where the section begins and ends, its free text, and the lines of each argument.

    Args:
        lines: The lines of a docstring without indentation. Without a section, both places are
            the end.

    Example:

    >>> split_section(["A layer.", "", "Call arguments: as usual;", "    here", "    x: A tensor."])
    (2, 5, ['as usual;', 'here'], {'x': ['    x: A tensor.']})
    """
    begin = next((n for n, line in enumerate(lines) if HEADER.match(line)), len(lines))
    if begin == len(lines):
        return begin, begin, [], {}
    end = begin + 1
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
    text, items, current = [HEADER.match(lines[begin])[1].strip()], {}, None
    for line in lines[begin + 1 : end]:
        if match := ITEM.match(line):
            current = []
            items |= dict.fromkeys(match[1].split(", "), current)
        if current is not None and line.strip():
            current.append(line)
        elif line.strip():
            text.append(line.strip())
    return begin, end, [one for one in text if one], items


def explain_arguments(layer: type) -> dict[str, list[str]]:
    """Returns the lines that explain each argument of a layer's `call`, in the order of `call`.

    Lines come from the layer's docstring or the nearest base class that explains the argument.
    """
    explained = {}
    for one in reversed(layer.__mro__):
        lines = inspect.cleandoc(vars(one).get("__doc__") or "").splitlines()
        explained |= split_section(lines)[3]
    names = list(inspect.signature(layer.call).parameters)[1:]
    return {name: explained.get(name, []) for name in names}


def format_signature(layer: type) -> str:
    """Returns the signature of a layer's `call`, without `self` and types.

    A loss that takes more arguments than Keras' has a `__call__` of its own, which is shown.

    Example:

    >>> import keras
    >>> format_signature(keras.layers.Dropout)
    'call(inputs, training=False)'
    """
    function = vars(layer).get("__call__", layer.call)
    arguments = list(inspect.signature(function).parameters.values())[1:]
    shown = [one.replace(annotation=one.empty) for one in arguments]
    return f"{function.__name__}{inspect.Signature(shown)}"


def spell_out(app, what, name, value, options, lines: list[str]) -> None:
    """Rewrites the section of a layer's docstring, as autodoc's event asks."""
    if what != "class" or not callable(getattr(value, "call", None)):
        return
    begin, end, text, own = split_section(lines)
    explained = explain_arguments(value)
    written, section = [], []
    for argument_lines in [*explained.values(), *own.values()]:
        if argument_lines not in written:  # one text may explain several arguments
            written.append(argument_lines)
            section += argument_lines
    if not section:
        return
    if begin == end:  # no section of its own: before what it returns
        begin = end = next((n for n, one in enumerate(lines) if one == "Returns:"), len(lines))
    signature = [f".. py:method:: {format_signature(value)}", ""]
    intro = [" ".join(["Call arguments in short:", *text]), ""] if text else []
    lines[begin:end] = [*signature, *intro, "Call arguments:", *section, ""]


def setup(app):
    """Connects the extension to Sphinx, before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", spell_out, priority=400)
    return {"parallel_read_safe": True}
