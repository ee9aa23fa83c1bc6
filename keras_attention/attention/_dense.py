"""A dense layer as a function, for steps of a loop."""

from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike


def apply_dense(inputs: TensorLike, kernel: TensorLike, bias: TensorLike) -> Tensor:
    """Returns `inputs @ kernel + bias` in the dtype of the inputs.

    Keras' dense layer uses a product that XLA cannot differentiate in a loop of unknown batch size.

    Args:
        inputs: Float tensor `(batch, query, dim)`.
        kernel: Float tensor `(dim, units)`.
        bias: Float tensor `(units,)`.
    """
    kernel, bias = (ops.cast(weight, inputs.dtype) for weight in (kernel, bias))
    return ops.einsum("bqd,du->bqu", inputs, kernel) + bias
