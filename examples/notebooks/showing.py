"""The source of a function inside a notebook."""

import ast
import inspect
import textwrap


def show_source(*functions) -> None:
    """Prints the source of functions or classes, without the docstring that begins each.

    Example:

    >>> def double(x):
    ...     '''Returns twice as much.'''
    ...     return 2 * x
    >>> show_source(double)
    def double(x):
        return 2 * x
    """
    print("\n\n".join(map(_without_docstring, functions)))


def _without_docstring(function):
    source = textwrap.dedent(inspect.getsource(function)).rstrip()
    definition = ast.parse(source).body[0]
    lines = source.splitlines()
    if ast.get_docstring(definition) is not None:
        first = definition.body[0]
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)
