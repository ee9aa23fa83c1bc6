"""Products with a kernel, and their precision.

Processors with bfloat16 hardware multiply it two to four times as fast as float32. XLA on a CPU
uses that hardware only for a product with bfloat16 inputs and a float32 result. It computes a
product with a bfloat16 result in float32, after widening the inputs. So under XLA the products here
return float32, which is rounded afterwards if the layer is in bfloat16.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.recomputation import Recomputable
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels.execution_mode import has_gpu, is_compiled_by_xla
from keras_attention.kernels.xla_barriers import store_product

PRECISIONS = ("float32", "bfloat16")
MAX_TRANSPOSED_ROWS = 128
_precision = contextvars.ContextVar("matmul_precision", default="float32")
_with_gradients = contextvars.ContextVar("derived", default=True)


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets the precision at which float32 layers multiply with kernels, in a `with` block.

    `"bfloat16"` rounds both operands of such a product to bfloat16 and accumulates in float32.
    Weights, outputs and everything between the products stay in float32. So it is closer to
    float32 than a `mixed_bfloat16` policy, and on a CPU under XLA faster than both. Outside XLA it
    computes the same numbers at no gain in speed. Layers of other dtypes ignore it.

    It affects the projections of heads, feed-forward networks, the blocks of ConvS2S, readouts and
    logits: nearly all the work of a Transformer or ConvS2S. Scores, weights and contexts of
    attention and the steps of a recurrence stay in float32.

    The precision takes effect when a function is traced: a compiled function keeps the precision
    of its first call.

    Args:
        precision: `"float32"`, the default, or `"bfloat16"`.

    Raises:
        ValueError: If `precision` is neither of these.

    Example:

    >>> import keras
    >>> from keras_attention import TransformerEncoderLayer, matmul_precision
    >>> layer = TransformerEncoderLayer(2, 16)
    >>> inputs = keras.ops.ones((1, 3, 8))
    >>> exact = layer(inputs)
    >>> with matmul_precision("bfloat16"):
    ...     rounded = layer(inputs)
    >>> rounded.dtype == exact.dtype
    True
    """
    validation.check_one_of("matmul_precision", "precision", precision, PRECISIONS)
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


@contextlib.contextmanager
def omit_gradients() -> Iterator[None]:
    """Omits the gradients of products within a `with` block.

    Use it for graphs that are saved: a saved gradient wastes space, and a missing one causes a
    warning wherever the graph is loaded.
    """
    token = _with_gradients.set(False)
    try:
        yield
    finally:
        _with_gradients.reset(token)


def kernel_matmul(
    inputs: TensorLike,
    kernel: TensorLike | keras.Variable,
    transposed: bool = False,
    is_step: bool = False,
) -> Tensor:
    """Returns the product of the last axis of `inputs` with a matrix, in the dtype of `inputs`.

    Args:
        inputs: Float tensor of shape `(..., in)`.
        kernel: Matrix `(in, out)` of the same dtype, a tensor or a variable.
        transposed: Whether the matrix is `(out, in)`.
        is_step: Whether `inputs` are the few rows `(rows, in)` of a decoder's step.
    """
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    is_rounded = dtype == "float32" and _precision.get() == "bfloat16"
    multiply = _choose_widening_product(dtype) if is_rounded or dtype == "bfloat16" else None
    if multiply:
        rows = reshape(inputs, (-1, inputs.shape[-1]))
        wide = multiply(ops.cast(rows, "bfloat16"), ops.cast(kernel, "bfloat16"), transposed)
        return ops.cast(reshape(wide, (*get_shape(inputs)[:-1], wide.shape[-1])), dtype)
    if is_rounded:
        inputs, kernel = (ops.cast(ops.cast(x, "bfloat16"), dtype) for x in (inputs, kernel))
    if transposed and is_step and _should_transpose_rows(inputs):
        return ops.transpose(ops.matmul(kernel, ops.transpose(inputs)))
    return store_product(ops.matmul(inputs, ops.transpose(kernel) if transposed else kernel))


def _should_transpose_rows(rows):
    """Returns whether to transpose the few rows of a product in place of the matrix.

    TensorFlow copies a matrix to transpose it. For 2 to 128 rows the product of the matrix with the
    transposed rows is 1.1 to 8 times as fast; one row needs no copy.
    """
    if rows.shape[0] is not None and not 1 < rows.shape[0] <= MAX_TRANSPOSED_ROWS:
        return False
    return keras.backend.backend() == "tensorflow" and not is_compiled_by_xla() and not has_gpu()


@keras.saving.register_keras_serializable(package="keras_attention")
class Dense(Recomputable, keras.layers.Dense):
    """`keras.layers.Dense`, with the precision that `matmul_precision` sets."""

    def call(self, inputs: Tensor, training: bool | None = None) -> TensorLike:
        # Cast here, because Keras does not when it recomputes the call for `keras.RematScope`.
        outputs = kernel_matmul(inputs, ops.cast(self.kernel, self.compute_dtype))
        if self.bias is not None:
            outputs = outputs + ops.cast(self.bias, self.compute_dtype)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: keras.quantizers.QuantizationConfig | None = None,
    ) -> None:
        # Keras refuses subclasses, whose `call` may compute something else. This one does not.
        super().quantize(mode, type_check=False, config=config)


def _choose_widening_product(dtype):
    """Returns `multiply(rows, matrix, transposed)` from bfloat16 to float32 if it is faster.

    Keras has no such product, so this uses that of the active backend.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow" and is_compiled_by_xla():
        # A GPU returns bfloat16 equally fast, which saves the rounding.
        if dtype == "float32" or not has_gpu():
            return _multiply_in_tensorflow
    if backend == "jax" and dtype == "float32":
        return _multiply_in_jax
    return None


def _multiply_in_tensorflow(rows, matrix, transposed):
    # TensorFlow's own kernels lack this product, so such a graph runs only under XLA.
    import tensorflow as tf

    def wide(rows, matrix):
        return tf.matmul(rows, matrix, transpose_b=transposed, output_type=tf.float32)

    @tf.custom_gradient  # TensorFlow's gradient would multiply float32 with bfloat16
    def differentiable_product(rows, matrix):
        def gradient(cotangent):
            cotangent = tf.cast(cotangent, rows.dtype)
            grad_rows = _multiply_in_tensorflow(cotangent, matrix, not transposed)
            pair = (cotangent, rows) if transposed else (rows, cotangent)
            return tf.cast(grad_rows, rows.dtype), tf.matmul(*pair, transpose_a=True)

        return wide(rows, matrix), gradient

    return (differentiable_product if _with_gradients.get() else wide)(rows, matrix)


def _multiply_in_jax(rows, matrix, transposed):
    import jax

    matrix = matrix.T if transposed else matrix
    return jax.numpy.matmul(rows, matrix, preferred_element_type="float32")
