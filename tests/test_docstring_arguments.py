"""Docstrings name the arguments that signatures have."""

import importlib
import inspect
import re

import pytest

import keras_attention
from keras_attention import callbacks, data, export, metrics, plotting, search
from keras_attention.export import serving, tokenizers


def _public_callables():
    packages = (callbacks, data, search, metrics, plotting, export, serving, tokenizers)
    for module in (keras_attention, *packages):
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isclass(member) or inspect.isfunction(member):
                yield pytest.param(member, id=f"{module.__name__.rpartition('.')[2]}.{name}")


def _section(text, title):
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)*)", text, re.MULTILINE)
    return found.group(1) if found else ""


def _list_entries(text, title):
    """Returns the names that begin the entries of a section of a docstring."""
    entries = re.findall(
        r"^ {4}((?:\*{0,2}\w+, )*\*{0,2}\w+):", _section(text, title), re.MULTILINE
    )
    return {name.lstrip("*") for entry in entries for name in entry.split(", ")}


def _parameters(function):
    return {
        name: one for name, one in inspect.signature(function).parameters.items() if name != "self"
    }


@pytest.mark.parametrize("member", list(_public_callables()))
def test_arguments_in_a_docstring_are_those_of_the_signature(member):
    text = inspect.cleandoc(member.__doc__) + "\n"
    known = set(_parameters(member.__init__ if inspect.isclass(member) else member))
    if inspect.isclass(member) and callable(getattr(member, "call", None)):
        own_call = vars(member).get("__call__", member.call)  # a loss adds `sample_weight`
        calls = {*_parameters(member.call), *_parameters(own_call)}
        assert _list_entries(text, "Call arguments") <= calls | {"mask"}
    assert _list_entries(text, "Args") <= known, importlib.import_module(member.__module__).__file__
