"""`tf` is TensorFlow; on another backend, a stand-in that skips the test which uses it."""

import types

import keras
import pytest

BACKEND = keras.backend.backend()


class SkippingModule(types.ModuleType):
    """A module whose every attribute skips the running test, with the reason."""

    def __getattr__(self, name):
        if name.startswith("__"):  # looked up by inspectors
            raise AttributeError(name)
        pytest.skip(f"uses `tf.{name}`, and the backend is {BACKEND}", allow_module_level=True)


if BACKEND == "tensorflow":
    import tensorflow as tf
else:
    tf = SkippingModule("tensorflow")

__all__ = ["tf"]
