"""A dense layer as a function, for steps of a loop."""

from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike


def apply_dense(inputs: TensorLike, kernel: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """Returns `inputs @ kernel + bias` in the dtype of the inputs.

    Keras' dense layer uses a product that XLA cannot differentiate in a loop of unknown batch size.

    Args:
        inputs: Float tensor `(batch, query, dim)`.
        kernel: Float tensor `(dim, units)`.
        bias: Float tensor `(units,)`, or None.
    """
    outputs = ops.einsum("bqd,du->bqu", inputs, ops.cast(kernel, inputs.dtype))
    return outputs if bias is None else outputs + ops.cast(bias, inputs.dtype)
