"""Encodes and decodes the protocol buffer messages of a warm-up file.

    PredictionLog  { predict_log = 6: PredictLog { request = 1: PredictRequest } }
    PredictRequest { model_spec = 1: ModelSpec { name = 1, signature_name = 3 }
                     inputs = 2: map<string, TensorProto>, output_filter = 3: repeated string }

`tensorflow-serving-api` has classes for them but depends on gRPC, which an export does not need.
The messages are nested length-delimited fields. Tests compare both encodings.
Encoding: https://protobuf.dev/programming-guides/encoding.
"""

import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

#: The path of the file in a version, and the number of records that a server reads.
WARMUP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")
MAX_RECORDS = 1000

_PREDICT_LOG, _REQUEST = 6, 1
_MODEL_SPEC, _INPUTS, _OUTPUT_FILTER = 1, 2, 3
_NAME, _SIGNATURE_NAME = 1, 3
_KEY, _VALUE = 1, 2
_LENGTH_DELIMITED = 2  # the wire type of strings and messages
_FIXED_SIZES = {1: 8, 5: 4}  # of the wire types of fixed length


def encode_prediction_log(model: str, signature: str, inputs: dict, outputs=()) -> bytes:
    """Returns a serialized `PredictionLog` that holds one request.

    Args:
        model: Name of the model.
        signature: Name of the signature.
        inputs: Dict of NumPy arrays, or of values that NumPy converts.
        outputs: Names of the outputs to fetch; empty for all.
    """
    spec = _encode_field(_NAME, model.encode()) + _encode_field(_SIGNATURE_NAME, signature.encode())
    request = _encode_field(_MODEL_SPEC, spec)
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _encode_field(
            _INPUTS, _encode_field(_KEY, name.encode()) + _encode_field(_VALUE, tensor)
        )
    for name in outputs:
        request += _encode_field(_OUTPUT_FILTER, name.encode())
    return _encode_field(_PREDICT_LOG, _encode_field(_REQUEST, request))


def decode_prediction_log(content: bytes) -> tuple[str, str, dict, tuple]:
    """Returns the arguments of `encode_prediction_log`, with inputs as NumPy arrays.

    Raises:
        ValueError: If `content` is not a `PredictionLog` with one `PredictRequest`.
    """
    request = _get_single_field(
        _decode_fields(_get_single_field(_decode_fields(content), _PREDICT_LOG)), _REQUEST
    )
    model = signature = ""
    inputs, outputs = {}, []
    for number, value in _decode_fields(request):
        if number == _MODEL_SPEC:
            texts = {
                key: text for key, text in _decode_fields(value) if key in (_NAME, _SIGNATURE_NAME)
            }
            model = _decode_text(texts.get(_NAME, b""))
            signature = _decode_text(texts.get(_SIGNATURE_NAME, b"serving_default"))
        elif number == _INPUTS:
            entry = list(_decode_fields(value))
            inputs[_decode_text(_get_single_field(entry, _KEY))] = _decode_array(
                _get_single_field(entry, _VALUE)
            )
        elif number == _OUTPUT_FILTER:
            outputs.append(_decode_text(value))
    return model, signature, inputs, tuple(outputs)


def _encode_field(number, content):
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def _encode_varint(value):
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _decode_fields(content):
    """Yields number and content of each string or message field; skips other fields."""
    offset = 0
    while offset < len(content):
        key, offset = _decode_varint(content, offset)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            _, offset = _decode_varint(content, offset)
            continue
        if wire_type == _LENGTH_DELIMITED:
            size, offset = _decode_varint(content, offset)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise ValueError(f"a field has the unknown wire type {wire_type}")
        end = offset + size
        if end > len(content):
            raise ValueError("a field is longer than its message")
        if wire_type == _LENGTH_DELIMITED:
            yield number, content[offset:end]
        offset = end


def _decode_varint(content, offset):
    value = shift = 0
    while offset < len(content) and shift < 64:
        digit = content[offset]
        value |= (digit & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if digit < 0x80:
            return value, offset
    raise ValueError("a number does not end")


def _get_single_field(fields, number):
    found = [value for key, value in fields if key == number]
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} fields {number}, expected 1")
    return found[0]


def _decode_text(content):
    return content.decode("utf-8")


def _decode_array(content) -> np.ndarray:
    try:
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(content))
    except (DecodeError, IndexError, KeyError, OverflowError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"an input is not a tensor that has values: {reason}") from error
