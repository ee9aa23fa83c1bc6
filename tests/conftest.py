"""What every test shares: the backends, and the rows of the conformance table that run fast.

What uses TensorFlow is skipped on another backend, test by test: test files get it from
`tf_or_skip`. The folders whose subject needs TensorFlow are not collected there.
"""

import gc

import keras
import pytest

BACKEND = keras.backend.backend()
collect_ignore, collect_ignore_glob = [], []
if BACKEND != "tensorflow":
    collect_ignore = ["examples", "export"]
    collect_ignore_glob = ["benchmarks/test_[!g]*"]  # all but the GPU's, which runs on JAX
if BACKEND == "torch":  # whose tensors are no arrays while they have a gradient
    import torch

    _array = torch.Tensor.__array__
    torch.Tensor.__array__ = lambda tensor, *dtype, **options: _array(tensor.detach(), *dtype)


@pytest.fixture
def frozen_heap():
    """Keras collects garbage for each kernel it quantizes: seconds where objects are many."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def _forget_what_was_compiled():
    """JAX keeps every operation it compiled for every shape: gigabytes, over a whole suite."""
    yield
    if BACKEND == "jax":
        import jax

        jax.clear_caches()


def pytest_collection_finish():
    """Keras collects garbage for every quantized layer: leave it what the imports made."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One row of the conformance table stands for its class in a fast run.

    The variants are run by `make test-variants`, `test-jax-thorough` and `test-torch-thorough`.
    """
    for item in items:
        row = getattr(item, "callspec", None) and item.callspec.params.get("row")
        if getattr(row, "label", ""):
            item.add_marker(pytest.mark.variant)
