"""Requests in the JSON of the model server's REST interface.

A request is `{"instances": [...]}`, one entry a row, or `{"inputs": {...}}`, one whole tensor
an input. Rules and messages are those of `tensorflow_serving/util/json_tensor.cc`.
"""

import json
import math
import re

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.allocator import pause_collections
from keras_attention.export.serving.errors import ServingError, invalid
from keras_attention.export.serving.json_values import array_of, is_object, scalar, shown
from keras_attention.export.serving.tensors import MAX_RANK

# Nothing in it is tried twice: a string that no quote ends is one to the end of the text.
STRING_OR_NOT_FINITE = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|-NaN|Inf(?:inity)?+', re.DOTALL)
PAIR_OR_ESCAPE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\[^u]", re.DOTALL)
LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F]")


def parse(body: bytes) -> dict:
    """Returns the JSON object that `body` starts with; what follows it is not looked at.

    Bytes that are not UTF-8 stay what they are (as surrogate escapes), NaN and the infinities
    are numbers, a byte order mark is passed over: so it is in the model server, whose RapidJSON
    reads an `EncodedInputStream<UTF8<>, MemoryStream>`.

    Raises:
        ServingError: If `body` does not start with a JSON object.

    Example:

    >>> parse(b'{"instances": ["abc"]}')
    {'instances': ['abc']}
    """
    text = body.decode("utf-8", "surrogateescape").removeprefix("\ufeff").lstrip(" \t\r\n")
    if not text:
        raise invalid("JSON Parse error: The document is empty")
    try:
        with pause_collections():
            document, _ = _DECODER.raw_decode(_as_python_spells(text))
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except RecursionError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    except ValueError:  # of an int of more than 4,300 digits
        raise _too_big() from None
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {shown(document)} Is not object")
    return document


def signature_name(document: dict) -> str:
    """Returns which signature a request asks for, "" for the default one."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {shown(document)} not formatted correctly. 'signature_name' key must "
            "be a string value."
        )
    return name


def inputs_of(document: dict, infos) -> tuple[dict[str, np.ndarray], bool]:
    """Returns a request's arrays, and whether it lists rows (rather than columns).

    Args:
        document: What `parse` gave.
        infos: The signature's inputs: a mapping from names to `TensorInfo`.

    Raises:
        ServingError: If keys, nesting, sizes or types are not those of the signature.
    """
    try:
        return _inputs(document, infos)
    except RecursionError:
        raise invalid("JSON Value: lists are nested too deeply") from None


def _inputs(document, infos):
    if not infos:
        raise invalid("Failed to get input map for signature.")
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {shown(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist"
        )
    dtypes = {name: tf.as_dtype(infos[name].dtype) for name in sorted(infos)}
    if "instances" in document:
        return _rows(document["instances"], dtypes, document), True
    if "inputs" in document:
        return _columns(document["inputs"], dtypes), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _rows(instances, dtypes, document):
    if not isinstance(instances, list):
        raise invalid(f"JSON Value: {shown(document)} Expecting 'instances' to be an list/array")
    if not instances:
        raise invalid(f"JSON Value: {shown(document)} No values in 'instances' array")
    if not isinstance(instances[0], dict) and len(dtypes) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    named = is_object(instances[0])
    values = {name: [] for name in dtypes}
    shapes = {}
    for index, row in enumerate(instances):
        if is_object(row) != named:
            expected = "object but got list" if named else "value/list but got object"
            raise invalid(f"Expecting {expected} at item {index} of input list")
        for name, item in (row if named else {next(iter(dtypes)): row}).items():
            try:
                _add_row(name, item, dtypes, values, shapes)
            except ServingError as error:
                raise _of_element(index, name if named else None, error) from None
        if named and set(row) != set(dtypes):
            raise invalid(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{shown(row)} keys must be equal to: {','.join(dtypes)}"
            )
    rows = len(instances)
    # One string in base64 is an object to the first question above and a value to the second: of
    # several inputs it fills the first, and whoever asks for the others says that they are missing.
    return {name: array_of(values[name], dtypes[name], (rows, *shapes[name])) for name in shapes}


def _add_row(name, item, dtypes, values, shapes):
    if name not in dtypes:
        raise invalid(f"JSON object: does not have named input: {name}")
    shape = _shape(item)
    before = len(values[name])
    _fill(item, 0, shape, dtypes[name], values[name])
    if shapes.setdefault(name, shape) != shape:
        size, expected = len(values[name]) - before, math.prod(shapes[name])
        if size != expected:
            raise invalid(f"Expecting tensor size: {expected} but got: {size}")
        raise invalid(f"Expecting shape {list(shapes[name])} but got: {list(shape)}")


def _columns(inputs, dtypes):
    if not is_object(inputs):
        if len(dtypes) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        inputs = {next(iter(dtypes)): inputs}
    missing = next((name for name in dtypes if name not in inputs), None)
    if missing is not None:
        raise invalid(f"Missing named input: {missing} in 'inputs' object.")
    arrays = {}
    for name, dtype in dtypes.items():
        shape, values = _shape(inputs[name]), []
        _fill(inputs[name], 0, shape, dtype, values)
        arrays[name] = array_of(values, dtype, shape)
    return arrays


def _shape(value):
    """The shape of nested lists, as their first elements have it."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    if len(shape) > MAX_RANK:
        raise invalid(f"lists are nested {len(shape)} deep, at most {MAX_RANK} are possible")
    return tuple(shape)


def _fill(value, level, shape, dtype, values):
    """Appends what nested lists of `shape` hold to `values`."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {shown(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        values.append(scalar(value, dtype))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for element in value:
        _fill(element, level + 1, shape, dtype, values)


def _of_element(index, name, error):
    key = "" if name is None else f" key: {name}"
    return invalid(f"Failed to process element: {index}{key} of 'instances' list. Error: {error}")


def _as_python_spells(text):
    """Returns the document with the server's spellings of what is no finite number.

    Raises:
        ServingError: If half of a surrogate pair is spelled in a string: it would be taken for
            one of the bytes that are no UTF-8.
    """
    if not any(spelling in text for spelling in ("Inf", "-NaN", "\\ud", "\\uD")):
        return text

    def spelled(match):
        found = match[0]
        if found[0] == '"':
            if LOW_SURROGATE.search(PAIR_OR_ESCAPE.sub("", found)):
                raise invalid("JSON Parse error: The surrogate pair in string is invalid.")
            return found
        return "NaN" if found == "-NaN" else "Infinity"

    return STRING_OR_NOT_FINITE.sub(spelled, text)


def _first_wins(pairs):
    """An object with repeated keys has the first value of each."""
    return dict(reversed(pairs)) if len(dict(pairs)) < len(pairs) else dict(pairs)


def _double(text):
    value = float(text)
    if math.isinf(value):
        raise _too_big()
    return value


def _too_big():
    return invalid("JSON Parse error: Number too big to be stored in double.")


_DECODER = json.JSONDecoder(object_pairs_hook=_first_wins, parse_float=_double)
