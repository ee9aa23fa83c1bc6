"""Converts JSON values to elements of tensors, by the rules of TensorFlow Serving."""

import base64
import binascii
import json

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.errors import invalid_argument

MAX_PREVIEW_CHARACTERS = 256
INTEGERS = {
    **{dtype: (-(2**31), 2**31 - 1) for dtype in (tf.int8, tf.int16, tf.int32, tf.uint8)},
    tf.int64: (-(2**63), 2**63 - 1),
    tf.uint32: (0, 2**32 - 1),
    tf.uint64: (0, 2**64 - 1),
}
FLOATS = (tf.float32, tf.float64)


def convert_scalar(value, dtype: tf.DType):
    """Returns a JSON value as an element of a tensor; raises if its type does not match."""
    if dtype == tf.string:
        if isinstance(value, str):
            return _encode_utf8(value)
        if isinstance(value, dict):
            return _decode_base64(value)
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif dtype in FLOATS:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                message = "JSON Parse error: Number too big to be stored in double."
                raise invalid_argument(message) from None
    elif dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
    else:
        message = f"Conversion of JSON Value: {preview_json(value)} to type: {dtype.name}"
        raise invalid_argument(message)
    raise invalid_argument(
        f"JSON Value: {preview_json(value)} Type: {_name_json_type(value)} is not of expected "
        "type: "
        f"{dtype.name}"
    )


def make_array(values: list, dtype: tf.DType, shape) -> np.ndarray:
    """Returns the array of a flat list of elements."""
    if dtype == tf.string:
        array = np.empty(len(values), dtype=object)
        array[:] = values
    else:
        # A wide dtype first: NumPy refuses numbers that overflow, TensorFlow Serving wraps them.
        wide = np.int64 if dtype in (tf.int8, tf.int16, tf.uint8) else dtype.as_numpy_dtype
        with np.errstate(over="ignore"):  # overflow becomes infinity, as in TensorFlow Serving
            array = np.array(values, dtype=wide).astype(dtype.as_numpy_dtype)
    return array.reshape(shape)


def is_object(value) -> bool:
    """Returns whether a value is an object with names, not a base64 string."""
    return isinstance(value, dict) and not _is_base64(value)


def preview_json(value) -> str:
    """Returns the beginning of a value, for error messages."""
    # Encode piece by piece, because a value may contain millions of others.
    text = ""
    for piece in json.JSONEncoder().iterencode(value):
        text += piece[:MAX_PREVIEW_CHARACTERS]
        if len(text) >= MAX_PREVIEW_CHARACTERS:
            break
    return text[:MAX_PREVIEW_CHARACTERS]


def _is_base64(value):
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def _decode_base64(value):
    if not _is_base64(value):
        raise invalid_argument(
            f"JSON Value: {preview_json(value)} not formatted correctly for base64 data"
        )
    try:
        # White space is ignored. Padding must be complete or absent.
        text = b"".join(value["b64"].encode("ascii").split())
        digits = text.rstrip(b"=")
        padding = b"=" * (-len(digits) % 4)
        if text not in (digits, digits + padding):
            raise binascii.Error("wrong padding")
        return base64.b64decode(digits + padding, validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise invalid_argument("Unable to base64 decode") from None


def _encode_utf8(text):
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid_argument(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None


def _name_json_type(value):
    kinds = {bool: str(value), str: "String", list: "Array", dict: "Object", type(None): "Null"}
    return kinds.get(type(value), "Number")
