"""Methods of all classes: their names, and what `compute_output_spec` takes."""

import ast
import importlib
import inspect
import pkgutil

from source_files import find_files

import keras_attention


def _our_classes():
    """Yields the classes of the library, private ones too."""
    for module in pkgutil.walk_packages(keras_attention.__path__, "keras_attention."):
        if not module.name.endswith("__main__"):
            for member in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(member) and member.__module__ == module.name:
                    yield member


def test_no_two_methods_of_a_class_differ_by_an_underscore_alone():
    classes = list(_our_classes())
    assert keras_attention.MultiHeadAttention in classes
    for one in classes:
        bases = [base for base in one.__mro__ if base.__module__.startswith("keras_attention")]
        names = {name for base in bases for name in vars(base) if not name.startswith("__")}
        pairs = [name for name in names if name.startswith("_") and name.lstrip("_") in names]
        assert pairs == [], one


def test_the_output_spec_repeats_no_signature():
    for path in find_files("keras_attention"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "compute_output_spec":
                named = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                given = {one.arg for one in named} - {"self"}
                assert len(given) <= 2, f"{path} repeats {sorted(given)} of `call`: use `bind_call`"
