"""Arrays to and from `TensorProto`, believing nothing that a message says about its size."""

import math

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.errors import check_deadline, invalid, too_long

MAX_ELEMENTS = 2**26
MAX_RANK = 64  # NumPy's
MAX_REPEATED = 2**16  # elements that one value of a few bytes may stand for
DTYPES = frozenset(
    {
        *(tf.float32, tf.float64, tf.bool, tf.string),
        *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    }
)


def array_of(proto) -> np.ndarray:
    """Returns the array a `TensorProto` stands for; strings become `bytes` objects.

    Raises:
        ServingError: If the dtype is unknown, or shape and values do not belong together. One
            value may stand for a whole tensor, of up to `MAX_REPEATED` elements.
    """
    try:
        dtype = tf.as_dtype(proto.dtype)
    except TypeError:
        raise invalid(f"tensor of unknown dtype {proto.dtype}") from None
    if dtype not in DTYPES:
        raise invalid(f"tensors of dtype {dtype.name} are not supported")
    # Before anything is done with them: the product of a million sizes takes hours.
    if len(proto.tensor_shape.dim) > MAX_RANK:
        rank = len(proto.tensor_shape.dim)
        raise invalid(f"tensor of {rank} dimensions, at most {MAX_RANK} are possible")
    shape = tuple(dimension.size for dimension in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid("tensor of unknown shape")
    if math.prod(shape) > MAX_ELEMENTS:
        raise invalid(f"tensor of shape {shape} has more than {MAX_ELEMENTS} elements")
    # What is not repeated takes a byte an element at least.
    if math.prod(shape) > max(MAX_REPEATED, proto.ByteSize()):
        raise invalid(f"tensor of shape {shape}: values may be repeated up to {MAX_REPEATED} times")
    try:
        array = tf.make_ndarray(proto)
        return array.reshape(shape) if array.shape != shape else array
    except (IndexError, OverflowError, TypeError, ValueError):
        raise invalid(f"the values of a tensor do not fit its shape {shape}") from None


def proto_of(array: np.ndarray):
    """Returns the `TensorProto` of an array."""
    array = np.asarray(array)
    if array.dtype.kind in "US":
        array = bytes_of(array)
    return tf.make_tensor_proto(array, dtype=dtype_of(array), shape=array.shape)


def dtype_of(array: np.ndarray) -> tf.DType:
    """Returns the TensorFlow dtype of an array; objects are strings."""
    return tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype)


def bytes_of(strings) -> np.ndarray:
    """Returns an object array of `bytes` for `str` or `bytes`, nested or not; str as UTF-8."""
    strings = np.asarray(strings, dtype=object)
    flat = [text.encode() if isinstance(text, str) else bytes(text) for text in strings.ravel()]
    # Not np.array(flat): NumPy would take the NUL bytes off their ends.
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(strings.shape)


def string_bytes(array: np.ndarray) -> int:
    """Returns how many bytes the strings of an object array have together."""
    return sum(map(len, array.flat))


class ProtoWriter:
    """Writes a signature's outputs as `TensorProto` messages.

    Args:
        max_bytes: Longest answer.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns about how many bytes the messages of the outputs take."""
        return sum(
            string_bytes(array) + 2 * array.size if array.dtype.kind == "O" else array.nbytes
            for array in outputs.values()
        )

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None = None) -> dict:
        """Returns the messages by name.

        Raises:
            ServingError: If the answer is too long or the deadline passes.
        """
        if self.size(outputs) > self._max_bytes:
            raise too_long(self._max_bytes)
        messages = {}
        for name, array in outputs.items():
            messages[name] = proto_of(array)
            check_deadline(deadline, "while the answer was written")
        return messages
