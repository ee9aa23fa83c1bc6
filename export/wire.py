"""The few protocol buffer messages of a model server that a warm-up file is made of.

    PredictionLog  { predict_log = 6: PredictLog { request = 1: PredictRequest } }
    PredictRequest { model_spec = 1: ModelSpec { name = 1, signature_name = 3 }
                     inputs = 2: map<string, TensorProto>, output_filter = 3: repeated string }

`tensorflow-serving-api` has classes for them and brings gRPC along, which exporting does not
need: these messages are strings inside strings, each with its number and length before it.
Tests compare both. Encoding: https://protobuf.dev/programming-guides/encoding.
"""

import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

#: Where a version has the file, and how many records a server reads of it.
WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")
MOST_RECORDS = 1000

_PREDICT_LOG, _REQUEST = 6, 1
_MODEL_SPEC, _INPUTS, _OUTPUT_FILTER = 1, 2, 3
_NAME, _SIGNATURE_NAME = 1, 3
_KEY, _VALUE = 1, 2
_DELIMITED = 2  # the wire type of strings and messages
_SIZES = {1: 8, 5: 4}  # of the wire types of fixed length


def prediction_log(model: str, signature: str, inputs: dict, outputs=()) -> bytes:
    """Returns a serialized `PredictionLog` that holds one request.

    Args:
        model: Name of the model.
        signature: Name of the signature.
        inputs: Dict of NumPy arrays (or what becomes one).
        outputs: Names of the outputs to fetch; none for all.
    """
    spec = _field(_NAME, model.encode()) + _field(_SIGNATURE_NAME, signature.encode())
    request = _field(_MODEL_SPEC, spec)
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, name.encode()) + _field(_VALUE, tensor))
    for name in outputs:
        request += _field(_OUTPUT_FILTER, name.encode())
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def read_prediction_log(content: bytes) -> tuple[str, str, dict, tuple]:
    """Returns what `prediction_log` was given, inputs as NumPy arrays.

    Raises:
        ValueError: If `content` is not a `PredictionLog` with a `PredictRequest` in it.
    """
    request = _only(_fields(_only(_fields(content), _PREDICT_LOG)), _REQUEST)
    model = signature = ""
    inputs, outputs = {}, []
    for number, value in _fields(request):
        if number == _MODEL_SPEC:
            texts = {key: text for key, text in _fields(value) if key in (_NAME, _SIGNATURE_NAME)}
            model = _text(texts.get(_NAME, b""))
            signature = _text(texts.get(_SIGNATURE_NAME, b"serving_default"))
        elif number == _INPUTS:
            entry = list(_fields(value))
            inputs[_text(_only(entry, _KEY))] = _array(_only(entry, _VALUE))
        elif number == _OUTPUT_FILTER:
            outputs.append(_text(value))
    return model, signature, inputs, tuple(outputs)


def _field(number, content):
    return _varint(number << 3 | _DELIMITED) + _varint(len(content)) + content


def _varint(value):
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _fields(content):
    """Number and content of each string or message field; others are passed over."""
    place = 0
    while place < len(content):
        key, place = _read_varint(content, place)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            _, place = _read_varint(content, place)
            continue
        if wire_type == _DELIMITED:
            size, place = _read_varint(content, place)
        elif wire_type in _SIZES:
            size = _SIZES[wire_type]
        else:
            raise ValueError(f"a field has the unknown wire type {wire_type}")
        end = place + size
        if end > len(content):
            raise ValueError("a field is longer than its message")
        if wire_type == _DELIMITED:
            yield number, content[place:end]
        place = end


def _read_varint(content, place):
    value = shift = 0
    while place < len(content) and shift < 64:
        digit = content[place]
        value |= (digit & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if digit < 0x80:
            return value, place
    raise ValueError("a number does not end")


def _only(fields, number):
    found = [value for key, value in fields if key == number]
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} fields {number}, expected 1")
    return found[0]


def _text(content):
    return content.decode("utf-8")


def _array(content) -> np.ndarray:
    try:
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(content))
    except (DecodeError, IndexError, KeyError, OverflowError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"an input is not a tensor that has values: {reason}") from error
