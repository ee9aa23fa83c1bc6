"""Converts arrays to and from `TensorProto`; does not trust the sizes in a message."""

import math

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.errors import (
    check_deadline,
    invalid_argument,
    response_too_long,
)

MAX_ELEMENTS = 2**26
MAX_RANK = 64  # NumPy's
MAX_REPEATED = 2**16  # elements that one value of a few bytes may stand for
MAX_REPEATED_BYTES = 2**26  # bytes of text that repeated strings may stand for
DTYPES = frozenset(
    {
        *(tf.float32, tf.float64, tf.bool, tf.string),
        *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    }
)


def proto_to_array(proto) -> np.ndarray:
    """Returns the array of a `TensorProto`; strings become `bytes` objects.

    Raises:
        ServingError: If the dtype is unknown, or shape and values do not match. One value may fill
            a whole tensor of up to `MAX_REPEATED` elements.
    """
    shape = _read_shape(proto)
    # An element that is not repeated takes at least one byte.
    if math.prod(shape) > max(MAX_REPEATED, proto.ByteSize()):
        raise invalid_argument(
            f"tensor of shape {shape}: values may be repeated up to {MAX_REPEATED} times"
        )
    has_values = proto.string_val or proto.tensor_content
    if proto.dtype == tf.string.as_datatype_enum and not has_values:
        return np.full(shape, b"", object)  # make_ndarray fills with str
    try:
        array = tf.make_ndarray(proto)
        return array.reshape(shape) if array.shape != shape else array
    except (IndexError, OverflowError, TypeError, ValueError):
        raise invalid_argument(f"the values of a tensor do not fit its shape {shape}") from None


def _read_shape(proto):
    """Returns the shape that a `TensorProto` claims, with at most `MAX_ELEMENTS` elements."""
    try:
        dtype = tf.as_dtype(proto.dtype)
    except TypeError:
        raise invalid_argument(f"tensor of unknown dtype {proto.dtype}") from None
    if dtype not in DTYPES:
        raise invalid_argument(f"tensors of dtype {dtype.name} are not supported")
    # Checked first: the product of a million sizes takes hours.
    if len(proto.tensor_shape.dim) > MAX_RANK:
        rank = len(proto.tensor_shape.dim)
        raise invalid_argument(f"tensor of {rank} dimensions, at most {MAX_RANK} are possible")
    shape = tuple(dimension.size for dimension in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid_argument("tensor of unknown shape")
    # An empty dimension does not hide the others: a model may work on each of them.
    if math.prod(size for size in shape if size) > MAX_ELEMENTS:
        raise invalid_argument(f"tensor of shape {shape} has more than {MAX_ELEMENTS} elements")
    return shape


def protos_to_arrays(protos, max_rows: int, deadline: float | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of a request's inputs.

    All sizes are checked before the first tensor is made. What `proto_to_array` allows one tensor
    to repeat, all tensors of a request may repeat together.

    Args:
        protos: Mapping from names to `TensorProto` messages.
        max_rows: Maximum number of rows of an input.
        deadline: Time on `time.monotonic()` after which the arrays are not wanted.

    Raises:
        ServingError: If a tensor is wrong or too large, or the deadline passes.
    """
    num_repeated = num_bytes = 0
    for name, proto in protos.items():
        shape = _read_shape(proto)
        if shape:
            check_num_rows(name, shape[0], max_rows)
        # The other sizes of an empty tensor count: a model may work on each of them.
        num_elements = math.prod(size for size in shape if size)
        if num_elements > proto.ByteSize():
            num_repeated += num_elements
        if proto.string_val:
            num_bytes += len(proto.string_val[-1]) * (num_elements - len(proto.string_val))
        if num_repeated > MAX_REPEATED or num_bytes > MAX_REPEATED_BYTES:
            raise invalid_argument(
                f"tensor of shape {shape}: values may be repeated up to {MAX_REPEATED} times in a "
                f"request, strings up to {MAX_REPEATED_BYTES:,} bytes"
            )
    arrays = {}
    for name, proto in protos.items():
        check_deadline(deadline, "while the request was read")
        arrays[name] = proto_to_array(proto)
    return arrays


def check_num_rows(name: str, num_rows: int, max_rows: int | None) -> None:
    """Raises INVALID_ARGUMENT if an input has more rows than a request may have."""
    if max_rows is not None and num_rows > max_rows:
        raise invalid_argument(
            f"input {name} has {num_rows} examples, more than {max_rows}. Send them in several "
            "requests."
        )


def array_to_proto(array: np.ndarray):
    """Returns the `TensorProto` of an array."""
    array = np.asarray(array)
    if array.dtype.kind in "US":
        array = encode_strings(array)
    return tf.make_tensor_proto(array, dtype=get_dtype(array), shape=array.shape)


def get_dtype(array: np.ndarray) -> tf.DType:
    """Returns the TensorFlow dtype of an array; the dtype object means string."""
    return tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype)


def encode_strings(strings) -> np.ndarray:
    """Returns an object array of `bytes` from (nested) `str` or `bytes`; str becomes UTF-8."""
    strings = np.asarray(strings, dtype=object)
    flat = [text.encode() if isinstance(text, str) else bytes(text) for text in strings.ravel()]
    # Not np.array(flat): NumPy would strip NUL bytes at the end.
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(strings.shape)


def count_string_bytes(array: np.ndarray) -> int:
    """Returns the total number of bytes of the strings of an object array."""
    return sum(map(len, array.flat))


class ProtoWriter:
    """Writes a signature's outputs as `TensorProto` messages.

    Args:
        max_bytes: Maximum size of a response.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns an estimate of the bytes of the messages."""
        return sum(
            count_string_bytes(array) + 2 * array.size if array.dtype.kind == "O" else array.nbytes
            for array in outputs.values()
        )

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None = None) -> dict:
        """Returns the messages by name.

        Raises:
            ServingError: If the response is too long or the deadline passes.
        """
        if self.size(outputs) > self._max_bytes:
            raise response_too_long(self._max_bytes)
        messages = {}
        for name, array in outputs.items():
            messages[name] = array_to_proto(array)
            check_deadline(deadline, "while the answer was written")
        return messages
