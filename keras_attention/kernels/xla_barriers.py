"""Barriers of XLA, which keep a value from being fused or shared with what surrounds it."""

import keras

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels import execution_mode


def store_product(tensor: TensorLike) -> Tensor:
    """Returns a product with a single row as a value that XLA on a CPU stores.

    XLA fuses such a product with what reads it, a bias for example, into a loop that is several
    times slower than the product.
    """
    if (
        tensor.shape[0] != 1
        or execution_mode.get_execution_mode(tensor) != "xla"
        or execution_mode.has_gpu()
    ):
        return tensor
    return store_value(tensor)


def store_step_product(tensor: TensorLike) -> Tensor:
    """Returns a product in a loop over time as a value that XLA on a GPU stores.

    XLA lets the product add what is added to it, for which it first copies the step's part of a
    sequence: one launch more than if the addition is fused with what reads the sum.
    """
    if execution_mode.get_execution_mode(tensor) != "xla" or not execution_mode.has_gpu():
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
