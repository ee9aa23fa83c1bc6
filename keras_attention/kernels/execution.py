"""How an operation would run: eagerly, in a graph or under XLA, and on which kind of device."""

import functools

import keras

from keras_attention._utils.tensor_types import Tensor, TensorLike


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


def take_rows(table: TensorLike, indices: TensorLike) -> Tensor:
    """Returns `table[indices]` for indices of at least 0 that lie inside.

    `keras.ops.take` allows negative ones, which costs three operations on TensorFlow.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, indices)
    return keras.ops.take(table, indices, axis=0)


def store_product(tensor: TensorLike) -> Tensor:
    """Returns a product with a single row as a value that XLA on a CPU stores.

    XLA fuses such a product with what reads it, a bias for example, into a loop that is several
    times slower than the product.
    """
    if tensor.shape[0] != 1 or get_execution_mode(tensor) != "xla" or has_gpu():
        return tensor
    return store_value(tensor)


def store_step_product(tensor: TensorLike) -> Tensor:
    """Returns a product in a loop over time as a value that XLA on a GPU stores.

    XLA lets the product add what is added to it, for which it first copies the step's part of a
    sequence: one launch more than if the addition is fused with what reads the sum.
    """
    if get_execution_mode(tensor) != "xla" or not has_gpu():
        return tensor
    return store_value(tensor)


def store_value(tensor: TensorLike) -> Tensor:
    """Returns a tensor that XLA stores; it has a gradient."""
    if keras.backend.backend() == "jax":
        return separate([tensor])[0]
    import tensorflow as tf

    @tf.custom_gradient
    def store(tensor):
        return separate([tensor])[0], lambda cotangent: cotangent

    return store(tensor)


def separate(tensors: list[TensorLike]) -> list[Tensor]:
    """Returns the tensors as values that XLA takes for no others, so that it shares no sums."""
    if keras.backend.backend() == "jax":
        import jax

        return list(jax.lax.optimization_barrier(tuple(tensors)))
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # only TensorFlow itself has it

    return gen_xla_ops.xla_optimization_barrier(input=tensors)
