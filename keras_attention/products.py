"""Products with a kernel, and how precisely they are computed.

Processors that multiply bfloat16 in hardware do it two to four times as fast as float32. XLA on a
CPU takes that road for a product that reads bfloat16 and gives float32, and for no other: one
that gives bfloat16 is computed in float32, with all its operands widened first. So under XLA
the products here give float32, which is rounded afterwards where the layer is in bfloat16.
"""

import contextlib
import contextvars
import sys

import keras
from keras import ops

from keras_attention import checks
from keras_attention.shapes import reshape

PRECISIONS = ("float32", "bfloat16")
_precision = contextvars.ContextVar("matmul_precision", default="float32")
_derived = contextvars.ContextVar("derived", default=True)


@contextlib.contextmanager
def matmul_precision(precision: str):
    """Sets how precisely float32 layers multiply with their kernels, within a `with` block.

    `"bfloat16"` rounds both operands of such a product to bfloat16 and sums up in float32.
    Weights, outputs and everything between the products stay in float32, so it is closer to
    float32 than a `mixed_bfloat16` policy, and on a CPU under XLA faster than both. Outside XLA it
    computes the same numbers, no faster. Layers of other dtypes take no notice.

    These products are the projections of heads, feed-forward nets, the blocks of ConvS2S, readouts
    and logits: nearly all the work of a Transformer or ConvS2S. Scores, weights and contexts of
    an attention and the steps of a recurrence stay in float32.

    The precision is read while a function is traced: a compiled function keeps the one that it
    was first called with.

    Args:
        precision: `"float32"`, the default everywhere, or `"bfloat16"`.

    Raises:
        ValueError: If `precision` is neither.

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
    checks.one_of("matmul_precision", "precision", precision, PRECISIONS)
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


@contextlib.contextmanager
def underived():
    """Leaves out, within a `with` block, what products need to be derived by their operands.

    For graphs that are stored: a gradient that is stored too is dead weight, and one that is not
    is warned of wherever the graph is loaded.
    """
    token = _derived.set(False)
    try:
        yield
    finally:
        _derived.reset(token)


def product(inputs, kernel, transposed: bool = False):
    """Returns the product of the last axis of `inputs` with a matrix, in the dtype of `inputs`.

    Args:
        inputs: Float tensor of shape `(..., in)`.
        kernel: Matrix `(in, out)` of the same dtype, a tensor or a variable.
        transposed: Whether the matrix is `(out, in)`.
    """
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    rounds = dtype == "float32" and _precision.get() == "bfloat16"
    multiply = _widening(dtype) if rounds or dtype == "bfloat16" else None
    if multiply:
        rows = reshape(inputs, (-1, inputs.shape[-1]))
        wide = multiply(ops.cast(rows, "bfloat16"), ops.cast(kernel, "bfloat16"), transposed)
        return ops.cast(reshape(wide, (*ops.shape(inputs)[:-1], wide.shape[-1])), dtype)
    if rounds:
        inputs, kernel = (ops.cast(ops.cast(x, "bfloat16"), dtype) for x in (inputs, kernel))
    return ops.matmul(inputs, ops.transpose(kernel) if transposed else kernel)


@keras.saving.register_keras_serializable(package="keras_attention")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, its product as precise as `matmul_precision` says."""

    def call(self, inputs, training=None):
        outputs = product(inputs, self.kernel)
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs if self.activation is None else self.activation(outputs)


def _widening(dtype):
    """Returns `multiply(rows, matrix, transposed)` from bfloat16 to float32, where that pays.

    Keras has no such product, so it is the backend's own; a backend that runs is imported.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow" and compiled_by_xla():
        # A GPU gives bfloat16 as fast, and then there is nothing to round.
        if dtype == "float32" or not sys.modules["tensorflow"].config.list_physical_devices("GPU"):
            return _multiply_in_tensorflow
    if backend == "jax" and dtype == "float32":
        return _multiply_in_jax
    return None


def compiled_by_xla() -> bool:
    """Returns whether TensorFlow is tracing a graph that XLA will compile."""
    tf = sys.modules["tensorflow"]
    if tf.executing_eagerly():
        return False
    # What compiles a graph TensorFlow alone knows, and tells nobody but itself.
    util = sys.modules.get("tensorflow.python.ops.control_flow_util")
    graph = tf.compat.v1.get_default_graph()
    return util is not None and util.GraphOrParentsInXlaContext(graph)


def _multiply_in_tensorflow(rows, matrix, transposed):
    # TensorFlow's own kernels have no such product: a graph with it runs under XLA alone.
    tf = sys.modules["tensorflow"]

    def wide(rows, matrix):
        return tf.matmul(rows, matrix, transpose_b=transposed, output_type=tf.float32)

    @tf.custom_gradient  # TensorFlow's own would multiply float32 with bfloat16
    def derived(rows, matrix):
        def gradient(given):
            given = tf.cast(given, rows.dtype)
            to_rows = _multiply_in_tensorflow(given, matrix, not transposed)
            pair = (given, rows) if transposed else (rows, given)
            return tf.cast(to_rows, rows.dtype), tf.matmul(*pair, transpose_a=True)

        return wide(rows, matrix), gradient

    return (derived if _derived.get() else wide)(rows, matrix)


def _multiply_in_jax(rows, matrix, transposed):
    matrix = matrix.T if transposed else matrix
    return sys.modules["jax"].numpy.matmul(rows, matrix, preferred_element_type="float32")
