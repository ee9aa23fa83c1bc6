"""How an operation would run: eagerly, in a graph or under XLA, and on which kind of device."""

import functools

import keras

from keras_attention._utils.tensor_types import TensorLike


def get_execution_mode(tensor: TensorLike) -> str:
    """Returns how an operation on this tensor would run: "eager", "graph" or "xla"."""
    if keras.backend.backend() == "jax":
        import jax

        return "xla" if isinstance(tensor, jax.core.Tracer) else "eager"
    if keras.backend.backend() != "tensorflow":
        return "eager"
    import tensorflow as tf

    if tf.executing_eagerly():
        return "eager"
    return "xla" if is_compiled_by_xla() else "graph"


def is_compiled_by_xla() -> bool:
    """Returns whether TensorFlow is tracing a graph that XLA will compile."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util  # only TensorFlow itself knows

    if tf.executing_eagerly():
        return False
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


@functools.lru_cache
def has_gpu() -> bool:
    """Returns whether there is a GPU, which then does the work."""
    if keras.backend.backend() == "torch":  # where `keras.distribution` is not implemented
        import torch

        return torch.cuda.is_available()
    return any("gpu" in device for device in keras.distribution.list_devices())
