"""Single JSON values as elements of tensors, by the rules of the model server."""

import base64
import binascii
import json

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.errors import invalid

SHOWN_CHARACTERS = 256
INTEGERS = {
    **{dtype: (-(2**31), 2**31 - 1) for dtype in (tf.int8, tf.int16, tf.int32, tf.uint8)},
    tf.int64: (-(2**63), 2**63 - 1),
    tf.uint32: (0, 2**32 - 1),
    tf.uint64: (0, 2**64 - 1),
}
FLOATS = (tf.float32, tf.float64)


def scalar(value, dtype: tf.DType):
    """Returns a JSON value as an element of a tensor, or refuses what is of another type."""
    if dtype == tf.string:
        if isinstance(value, str):
            return _bytes(value)
        if isinstance(value, dict):
            return _unescaped(value)
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif dtype in FLOATS:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                message = "JSON Parse error: Number too big to be stored in double."
                raise invalid(message) from None
    elif dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
    else:
        message = f"Conversion of JSON Value: {shown(value)} to type: {dtype.name}"
        raise invalid(message)
    raise invalid(
        f"JSON Value: {shown(value)} Type: {_json_type(value)} is not of expected type: "
        f"{dtype.name}"
    )


def array_of(values: list, dtype: tf.DType, shape) -> np.ndarray:
    """Returns the array of a flat list of elements."""
    if dtype == tf.string:
        array = np.empty(len(values), dtype=object)
        array[:] = values
    else:
        # Wider first: NumPy refuses what a narrow integer cannot hold, the server wraps it.
        wide = np.int64 if dtype in (tf.int8, tf.int16, tf.uint8) else dtype.as_numpy_dtype
        with np.errstate(over="ignore"):  # what a float32 cannot hold is infinite, as there
            array = np.array(values, dtype=wide).astype(dtype.as_numpy_dtype)
    return array.reshape(shape)


def is_object(value) -> bool:
    """Whether a value is an object with names, not a string in base64."""
    return isinstance(value, dict) and not _is_base64(value)


def shown(value) -> str:
    """Returns the beginning of a value, for messages."""
    # Piece by piece, as a value may be millions of others.
    text = ""
    for piece in json.JSONEncoder().iterencode(value):
        text += piece[:SHOWN_CHARACTERS]
        if len(text) >= SHOWN_CHARACTERS:
            break
    return text[:SHOWN_CHARACTERS]


def _is_base64(value):
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def _unescaped(value):
    if not _is_base64(value):
        raise invalid(f"JSON Value: {shown(value)} not formatted correctly for base64 data")
    try:
        # White space counts for nothing, and padding is there as it must be or not at all.
        text = b"".join(value["b64"].encode("ascii").split())
        digits = text.rstrip(b"=")
        padding = b"=" * (-len(digits) % 4)
        if text not in (digits, digits + padding):
            raise binascii.Error("wrong padding")
        return base64.b64decode(digits + padding, validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise invalid("Unable to base64 decode") from None


def _bytes(text):
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from None


def _json_type(value):
    kinds = {bool: str(value), str: "String", list: "Array", dict: "Object", type(None): "Null"}
    return kinds.get(type(value), "Number")
