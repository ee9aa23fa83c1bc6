"""What `keras_attention` offers after a bare import, and what that import leaves alone."""

import ast
import json
import pathlib
import subprocess
import sys

import pytest

import keras_attention
from keras_attention import search

LAZY = ["callbacks", "data", "export", "plotting", "search"]
PACKAGES = sorted([*LAZY, "metrics"])
BARE_IMPORT = """
import json, pydoc, sys
import keras
before = set(sys.modules)
import keras_attention
found = {"dir": dir(keras_attention), "modules": sorted(set(sys.modules) - before)}
from keras_attention import *
assert beam_search is keras_attention.beam_search
assert not {"search", "export", "metrics", "plotting"} & set(globals())
found["star"] = sorted(set(sys.modules) - before - set(found["modules"]))
assert keras_attention.plotting.plot_alignment.__name__ == "plot_alignment"
found["plotting"] = sorted(set(sys.modules) - before)

sys.modules.update(matplotlib=None, tensorflow_text=None)  # as if they were not installed
found["dir without extras"] = dir(keras_attention)
found["help without extras"] = pydoc.render_doc(keras_attention, renderer=pydoc.plaintext)
found["errors"] = []
for use in (
    lambda: keras_attention.export,
    lambda: __import__("keras_attention.export"),
    lambda: exec("from keras_attention import export"),
    lambda: keras_attention.plotting.plot_alignment([[1.0]], "a", "b"),
):
    try:
        use()
    except ImportError as error:
        found["errors"].append(str(error))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def bare():
    """What a fresh interpreter finds, in which only Keras was imported before."""
    command = [sys.executable, "-c", BARE_IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
def test_a_bare_import_brings_this_package_alone(bare):
    """Keras has imported its backend; no extra is added, and none of our own lazy packages."""
    assert {name.split(".")[0] for name in bare["modules"]} == {"keras_attention"}
    lazy = tuple(f"keras_attention.{name}" for name in LAZY)
    assert [name for name in bare["modules"] if name.startswith(lazy)] == []


def test_a_star_import_adds_the_searches_and_nothing_else(bare):
    assert bare["star"]
    assert [n for n in bare["star"] if not n.startswith("keras_attention.search")] == []


def test_plotting_is_reached_without_matplotlib_being_imported(bare):
    assert [n for n in bare["plotting"] if n.split(".")[0] != "keras_attention"] == []


def test_dir_shows_public_names_only(bare):
    assert bare["dir"] == sorted([*keras_attention.__all__, *PACKAGES])
    assert dir(keras_attention) == bare["dir"], "the same after everything was imported"


@pytest.mark.parametrize("name", search.__all__)
def test_the_searches_are_at_the_top(name):
    assert name in keras_attention.__all__
    assert getattr(keras_attention, name) is getattr(search, name)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_an_attribute(name):
    assert getattr(keras_attention, name) is sys.modules[f"keras_attention.{name}"]


def test_editors_and_type_checkers_know_the_lazy_names():
    tree = ast.parse(pathlib.Path(keras_attention.__file__).read_text())
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    known = {alias.asname or alias.name for line in block.body for alias in line.names}
    assert known == {*search.__all__, *LAZY}


def test_a_name_that_is_none_is_an_attribute_error_that_knows_the_nearest():
    with pytest.raises(AttributeError, match="no attribute 'beam_serch'") as caught:
        keras_attention.beam_serch  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("beam_serch", keras_attention)
    assert not hasattr(keras_attention, "Beam")
    with pytest.raises(ImportError, match="cannot import name 'beam_serch'"):
        from keras_attention import beam_serch  # noqa: F401


def test_help_and_dir_work_without_extras(bare):
    assert set(bare["dir"]) - set(bare["dir without extras"]) == {"export"}
    text = bare["help without extras"]
    assert "beam_search(" in text and "class BahdanauAttention" in text


def test_a_missing_extra_is_named_with_the_command_that_installs_it(bare):
    export = (
        "keras_attention.export needs tensorflow_text, which is not installed. "
        'Run: pip install "keras-attention-layers[export]"'
    )
    plot = (
        "keras_attention.plotting needs matplotlib, which is not installed. "
        'Run: pip install "keras-attention-layers[plot]"'
    )
    assert bare["errors"] == [export, export, export, plot]
