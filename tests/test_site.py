"""The site: every call argument of a layer is spelled out, and `make docs` builds every page."""

import importlib
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys
import tomllib

import keras
import pytest

import keras_attention as ka

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

from api_pages import PACKAGES  # noqa: E402
from call_arguments import explain_arguments, spell_out, split_section  # noqa: E402
from linked_names import link_names  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT_PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
LAYERS = [
    one
    for one in map(ka.__dict__.get, ka.__all__)
    if inspect.isclass(one) and issubclass(one, keras.layers.Layer)
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_the_page_of_a_layer_has_the_signature_of_call_and_explains_each_argument(layer):
    names = list(inspect.signature(layer.call).parameters)[1:]
    assert [name for name, lines in explain_arguments(layer).items() if not lines] == []
    lines = inspect.getdoc(layer).splitlines()
    spell_out(None, "class", layer.__name__, layer, None, lines)
    begin, *_, items = split_section(lines)
    assert set(names) <= items.keys()
    (place,) = (n for n, line in enumerate(lines) if line.startswith(".. py:method:: call("))
    assert re.findall(r"[(,] ?(\w+)", lines[place]) == names
    assert place < begin, "the signature stands before its arguments"


def _list_public_names():
    """Yields each public object of the library with a name of it; checks of arguments are ours."""
    for package in PROJECT_PACKAGES:
        if package not in ("keras_attention.validation", "keras_attention._utils"):
            module = importlib.import_module(package)
            for name in module.__all__:
                if not inspect.ismodule(getattr(module, name)):
                    yield f"{package}.{name}", getattr(module, name)


def test_every_public_name_has_a_page():
    listed = [importlib.import_module(package) for package in PACKAGES]
    documented = {id(getattr(module, name)) for module in listed for name in module.__all__}
    assert [name for name, value in _list_public_names() if id(value) not in documented] == []


#: Base classes, and pieces that no paper defines alone.
WITHOUT_PAPER = {
    "AttentionMechanism",
    "ContextAddCell",
    "Decoder",
    "LearnedQueries",
    "Normalizer",
    "RecurrentDecoder",
    "ScalarShift",
    "Scorer",
    "SoftmaxShift",
    "SplitSources",
    "UniformScorer",
}


def test_every_layer_links_to_its_paper():
    found = {one.__name__ for one in LAYERS if not re.search("https?://", inspect.getdoc(one))}
    assert found <= WITHOUT_PAPER


def test_an_argument_of_a_base_class_is_spelled_out():
    lines = inspect.getdoc(ka.BahdanauAttention).splitlines()
    spell_out(None, "class", "", ka.BahdanauAttention, None, lines)
    text = "\n".join(lines)
    assert "Call arguments:\n    query: Float" in text
    assert re.search(r"\n    position_offset: Int `\(batch,\)`", text)
    assert text.index("Call arguments:\n") < text.index("\nReturns:")


def test_a_public_name_in_a_docstring_is_a_link_and_an_argument_is_none():
    lines = [
        "As `AttentionMechanism`, `train` and `query`; ``AttentionMechanism``",
        "`SearchOptions`",
    ]
    link_names(None, "class", "", None, None, lines)
    assert lines == [
        "As :py:obj:`AttentionMechanism <keras_attention.AttentionMechanism>`, `train` and `query`;"
        " ``AttentionMechanism``",
        ":py:obj:`SearchOptions <keras_attention.export.SearchOptions>`",
    ]


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning(tmp_path):
    needed = ("sphinx", "myst_nb", "furo")
    missing = [one for one in needed if importlib.util.find_spec(one) is None]
    if missing:
        pytest.skip(f"NOT RUN: {', '.join(missing)} missing; `make docs` installs the group docs")
    command = [sys.executable, "-m", "sphinx", "-c", "docs", "-W", "--keep-going", "-q", "."]
    done = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / "docs" / "api" / "keras_attention.BahdanauAttention.html").read_text()
    source = "_modules/keras_attention/attention/bahdanau.html"
    for word in ("units", "position_offset", "previous_weights", "arxiv.org/abs/1409.0473", source):
        assert word in page
    assert 'href="keras_attention.AttentionMechanism.html#' in page
    assert "BahdanauAttention" in (tmp_path / "searchindex.js").read_text()
    for layer in LAYERS:
        page = tmp_path / "docs" / "api" / f"keras_attention.{layer.__name__}.html"
        signature = _read_signature(page.read_text(), f"keras_attention.{layer.__name__}.call")
        assert signature == list(inspect.signature(layer.call).parameters)[1:], layer


def _read_signature(page, anchor):
    """Returns the names of the arguments in the signature that has an anchor."""
    entry = re.search(rf'<dt [^>]*id="{re.escape(anchor)}".*?</dt>', page, re.DOTALL)
    assert entry, f"no {anchor}"
    return re.findall(r'class="sig-param"><span class="n"><span class="pre">(\w+)<', entry[0])
