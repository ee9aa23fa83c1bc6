"""On another backend than TensorFlow, what uses TensorFlow is skipped, test by test.

There `import tensorflow` in a test file gives a module that skips whoever looks something up in
it; the rest of the file runs. Keras and everything else see no TensorFlow.
"""

import builtins
import pathlib
import types

import keras
import pytest

BACKEND = keras.backend.backend()
TESTS = str(pathlib.Path(__file__).parent)
_import = builtins.__import__


class _Skipping(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):  # looked up by inspectors
            raise AttributeError(name)
        pytest.skip(f"uses `tf.{name}`, and the backend is {BACKEND}", allow_module_level=True)


def _import_or_skip(name, globals=None, *args, **kwargs):
    if name == "tensorflow" and str((globals or {}).get("__file__", "")).startswith(TESTS):
        return _Skipping(name)
    return _import(name, globals, *args, **kwargs)


if BACKEND != "tensorflow":
    builtins.__import__ = _import_or_skip
if BACKEND == "torch":  # whose tensors are no arrays while they have a gradient
    import torch

    _array = torch.Tensor.__array__
    torch.Tensor.__array__ = lambda tensor, *dtype, **options: _array(tensor.detach(), *dtype)


@pytest.fixture(scope="module", autouse=True)
def _forget_what_was_compiled():
    """JAX keeps every operation it compiled for every shape: gigabytes, over a whole suite."""
    yield
    if BACKEND == "jax":
        import jax

        jax.clear_caches()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One row of the conformance table stands for its class in a fast run.

    The variants are run by `make test-thorough`, `test-jax-thorough` and `test-torch-thorough`.
    """
    for item in items:
        row = getattr(item, "callspec", None) and item.callspec.params.get("row")
        if getattr(row, "label", ""):
            item.add_marker(pytest.mark.thorough)
