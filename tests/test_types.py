"""What is public says what it takes and returns, and an installed wheel tells type checkers so."""

import importlib
import inspect
import pathlib
import pkgutil
import re
import tomllib
import typing

import pytest

import keras_attention

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIAL = ("__init__", "__call__", "__enter__", "__exit__")


def _is_public(name):
    return not name.startswith("_")


def _find_modules():
    found = ["keras_attention"]
    for module in pkgutil.walk_packages(keras_attention.__path__, "keras_attention."):
        if all(_is_public(part) for part in module.name.split(".")):
            found.append(module.name)
    return found


def _is_ours(value):
    """Whether a class or function is the library's; `_utils` adds to how Keras calls a layer."""
    module = getattr(value, "__module__", None) or ""
    return module.startswith("keras_attention") and not module.startswith("keras_attention._utils")


def _unwrap(member):
    """Returns the function of a method or of a property; None for any other attribute."""
    member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return member if inspect.isfunction(member) and _is_ours(member) else None


def _find_callables(module):
    """Yields the names and functions of a module's public classes, inherited ones too."""
    for name, value in vars(module).items():
        here = getattr(value, "__module__", None) == module.__name__
        if not _is_public(name) or not (here or name in getattr(module, "__all__", ())):
            continue
        if inspect.isfunction(value) and _is_ours(value):
            yield name, value
        elif inspect.isclass(value):
            members = {n: m for base in reversed(value.__mro__) for n, m in vars(base).items()}
            for member_name, member in members.items():
                function = _unwrap(member)
                if function and (_is_public(member_name) or member_name in SPECIAL):
                    yield f"{name}.{member_name}", function


def _says_nothing(annotation):
    """Whether an annotation is missing, or has Any or object in it."""
    if annotation in (inspect.Parameter.empty, typing.Any, object):
        return True
    if isinstance(annotation, str):
        return re.search(r"\b(Any|object)\b", annotation) is not None
    if isinstance(annotation, list):  # the arguments of a callable
        return any(_says_nothing(one) for one in annotation)
    if (getattr(annotation, "__module__", None) or "").startswith("numpy"):
        return False  # `ArrayLike` speaks of arrays of any dtype
    return any(_says_nothing(one) for one in typing.get_args(annotation))


def _find_gaps(name, function):
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    gaps = [f"{name}({one.name})" for one in parameters if _says_nothing(one.annotation)]
    return gaps + ([f"{name} -> ?"] if _says_nothing(signature.return_annotation) else [])


@pytest.mark.parametrize("name", _find_modules())
def test_what_is_public_is_annotated(name):
    module = importlib.import_module(name)
    gaps = [gap for pair in _find_callables(module) for gap in _find_gaps(*pair)]
    assert gaps == []


def test_gaps_are_found():
    def function(
        one,
        two: typing.Any,
        three: dict[str, object],
        four: "dict[str, object]",
        five: int,
        *rest: typing.Callable[[object], int],
    ): ...

    wanted = [f"f({name})" for name in ("one", "two", "three", "four", "rest")]
    assert _find_gaps("f", function) == [*wanted, "f -> ?"]


def test_all_modules_are_looked_at():
    names = _find_modules()
    assert {"keras_attention.attention.base", "keras_attention.export.serving.client"} <= set(names)
    found = dict(_find_callables(keras_attention))
    assert {"BahdanauAttention.__init__", "BahdanauAttention.call", "safe_log"} <= set(found)
    assert "BahdanauDecoder.readout" in found, "defined in a private module"


def test_type_checkers_are_told():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    assert data["keras_attention"] == ["py.typed"]
    assert (ROOT / "keras_attention" / "py.typed").read_text() == ""
