"""Every example in a docstring runs, and every public class and function has one."""

import doctest
import importlib
import inspect
import pkgutil

import keras
import pytest

#: Public names without an example, and why.
WITHOUT_EXAMPLE = {
    "AttentionMechanism": "abstract",
    "RecurrentDecoder": "abstract",
}
#: Modules that import a package which the tests on TensorFlow do not install.
NEEDS = {"examples.jax_training.fit": "jax"}
PUBLIC = (
    "keras_attention",
    "keras_attention.callbacks",
    "keras_attention.convolutional",
    "keras_attention.core",
    "keras_attention.data",
    "keras_attention.decoders",
    "keras_attention.memory_networks",
    "keras_attention.search",
    "keras_attention.glimpses",
    "keras_attention.losses",
    "keras_attention.metrics",
    "keras_attention.attention",
    "keras_attention.ntm",
    "keras_attention.normalizers",
    "keras_attention.plotting",
    "keras_attention.pooling",
    "keras_attention.recurrent",
    "keras_attention.scorers",
    "keras_attention.transformer",
)


def _modules():
    names = []
    for package in ("keras_attention", "keras_attention.export", "examples"):
        module = importlib.import_module(package)
        names.append(package)
        found = pkgutil.walk_packages(module.__path__, package + ".")
        names += [info.name for info in found if not info.name.endswith("__main__")]
    return sorted(set(names))


def _examples(module):
    """Returns the doctests written in a module's own docstrings."""
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=True)
    names = {"keras": keras, "ops": keras.ops, **vars(module)}
    return [test for test in finder.find(module, extraglobs=names) if test.examples]


@pytest.mark.parametrize("name", _modules())
def test_the_examples_of_a_module_run(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    report = []
    for test in _examples(module):
        keras.utils.set_random_seed(1)
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_the_example_of_a_decoder_runs_where_it_is_pasted():
    text = inspect.getdoc(importlib.import_module("keras_attention").Decoder)
    test = doctest.DocTestParser().get_doctest(text, {}, "Decoder", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_examples_are_found_at_all():
    module = importlib.import_module("keras_attention.attention.bahdanau")
    assert [test.name for test in _examples(module)] == [f"{module.__name__}.BahdanauAttention"]


def test_a_wrong_example_fails():
    parser = doctest.DocTestParser()
    test = parser.get_doctest(">>> keras.ops.sum(1)\n7", {"keras": keras}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1


def _public():
    named = {}
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                named[f"{value.__module__}.{value.__qualname__}"] = value
    return [named[name] for name in sorted(named)]


@pytest.mark.parametrize("value", _public(), ids=lambda value: value.__qualname__)
def test_everything_public_has_an_example(value):
    has_one = bool(doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""))
    assert has_one or value.__name__ in WITHOUT_EXAMPLE
    assert not (has_one and value.__name__ in WITHOUT_EXAMPLE), "the exception is not needed"


LAYERS = [v for v in _public() if inspect.isclass(v) and issubclass(v, keras.layers.Layer)]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__qualname__)
def test_the_docstring_of_a_layer_has_its_sections(layer):
    text = inspect.getdoc(layer)
    assert text.splitlines()[0].endswith("."), "the first line is a sentence"
    assert [part for part in ("Call arguments:", "Returns:") if part not in text] == []
