"""Parses requests in the JSON of TensorFlow Serving's REST interface.

A request is `{"instances": [...]}`, in row format, or `{"inputs": {...}}`, in columnar format with
a tensor for each input. Rules and messages are those of `tensorflow_serving/util/json_tensor.cc`.
"""

import contextlib
import gc
import json
import math
import re
import threading

import numpy as np
import tensorflow as tf

from keras_attention.export.serving._json_values import (
    convert_scalar,
    is_object,
    make_array,
    preview_json,
)
from keras_attention.export.serving._tensor_protos import MAX_RANK, check_num_rows
from keras_attention.export.serving.errors import (
    ServingError,
    check_deadline,
    invalid_argument,
)

MAX_SLICE = 2**16  # characters that one call scans; it holds the interpreter lock for 5 ms
MAX_ESCAPE = 12  # characters of a surrogate pair, the longest escape
# Ends at a quote, at half of a surrogate pair, or where an escape might continue beyond the slice.
# It does not backtrack.
STRING_CONTENT = re.compile(
    r'(?:[^"\\]++|\\[^u]|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u(?![dD][c-fC-F])(?=.{10}))*+',
    re.DOTALL,
)
# No number has more of these letters.
NONFINITE_LETTERS = re.compile(r"[-NaInfity]{0,16}")
LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F]")
_COLLECTOR_LOCK = threading.Lock()
_num_pauses = 0
_was_enabled = False


def parse(body: bytes, deadline: float | None = None) -> dict:
    """Returns the JSON object that `body` starts with; the rest is ignored.

    As in the model server, whose RapidJSON reads an `EncodedInputStream<UTF8<>, MemoryStream>`,
    bytes that are not UTF-8 are kept (as surrogate escapes), NaN and the infinities are numbers,
    and a byte order mark is skipped.

    Args:
        body: The body of the request.
        deadline: Time on `time.monotonic()` after which the object is not wanted.

    Raises:
        ServingError: If `body` does not start with a JSON object, or the deadline passes.

    Example:

    >>> parse(b'{"instances": ["abc"]}')
    {'instances': ['abc']}
    """
    text = body.decode("utf-8", "surrogateescape").removeprefix("\ufeff").lstrip(" \t\r\n")
    if not text:
        raise invalid_argument("JSON Parse error: The document is empty")
    try:
        with pause_garbage_collection():
            document, _ = _DECODER.raw_decode(_convert_nonfinite_literals(text, deadline))
    except json.JSONDecodeError as error:
        raise invalid_argument(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except RecursionError as error:
        raise invalid_argument(f"JSON Parse error: {error}") from None
    except ValueError:  # an int of more than 4,300 digits
        raise _make_too_big_error() from None
    if not isinstance(document, dict):
        raise invalid_argument(f"JSON Value: {preview_json(document)} Is not object")
    return document


def signature_name(document: dict) -> str:
    """Returns the name of the requested signature; "" for the default one."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(
            f"JSON Value: {preview_json(document)} not formatted correctly. 'signature_name' key "
            "must be a string value."
        )
    return name


def parse_inputs(
    document: dict, infos, max_rows: int | None = None, deadline: float | None = None
) -> tuple[dict[str, np.ndarray], bool]:
    """Returns a request's arrays, and whether it lists rows (rather than columns).

    Args:
        document: As `parse` returns it.
        infos: The signature's inputs: a mapping from names to `TensorInfo`.
        max_rows: Maximum number of rows; None for no limit.
        deadline: Time on `time.monotonic()` after which the arrays are not wanted.

    Raises:
        ServingError: If keys, nesting, sizes or types are not those of the signature, there are
            too many rows or the deadline passes.
    """
    try:
        return _parse_document(document, infos, max_rows, deadline)
    except RecursionError:
        raise invalid_argument("JSON Value: lists are nested too deeply") from None


def _parse_document(document, infos, max_rows, deadline):
    if not infos:
        raise invalid_argument("Failed to get input map for signature.")
    if "instances" in document and "inputs" in document:
        raise invalid_argument(
            f"JSON Value: {preview_json(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist"
        )
    dtypes = {name: tf.as_dtype(infos[name].dtype) for name in sorted(infos)}
    if "instances" in document:
        return _parse_rows(document["instances"], dtypes, document, max_rows, deadline), True
    if "inputs" in document:
        return _parse_columns(document["inputs"], dtypes, max_rows, deadline), False
    raise invalid_argument("Missing 'inputs' or 'instances' key")


def _parse_rows(instances, dtypes, document, max_rows, deadline):
    if not isinstance(instances, list):
        raise invalid_argument(
            f"JSON Value: {preview_json(document)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise invalid_argument(
            f"JSON Value: {preview_json(document)} No values in 'instances' array"
        )
    check_num_rows(next(iter(dtypes)), len(instances), max_rows)
    if not isinstance(instances[0], dict) and len(dtypes) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    has_names = is_object(instances[0])
    values = {name: [] for name in dtypes}
    shapes = {}
    for index, row in enumerate(instances):
        if is_object(row) != has_names:
            expected = "object but got list" if has_names else "value/list but got object"
            raise invalid_argument(f"Expecting {expected} at item {index} of input list")
        for name, item in (row if has_names else {next(iter(dtypes)): row}).items():
            try:
                _add_row(name, item, dtypes, values, shapes, deadline)
            except ServingError as error:
                if error.code != "INVALID_ARGUMENT":
                    raise
                raise _make_element_error(index, name if has_names else None, error) from None
        if has_names and set(row) != set(dtypes):
            raise invalid_argument(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{preview_json(row)} keys must be equal to: {','.join(dtypes)}"
            )
    rows = len(instances)
    # TensorFlow Serving treats a base64 string as an object in its first check and as a value in
    # its second: it fills the first of several inputs, and the others are reported as missing.
    return {name: make_array(values[name], dtypes[name], (rows, *shapes[name])) for name in shapes}


def _add_row(name, item, dtypes, values, shapes, deadline):
    if name not in dtypes:
        raise invalid_argument(f"JSON object: does not have named input: {name}")
    shape = _infer_shape(item, MAX_RANK - 1)  # the rows are a dimension more
    before = len(values[name])
    _append_values(item, 0, shape, dtypes[name], values[name], deadline)
    if shapes.setdefault(name, shape) != shape:
        size, expected = len(values[name]) - before, math.prod(shapes[name])
        if size != expected:
            raise invalid_argument(f"Expecting tensor size: {expected} but got: {size}")
        raise invalid_argument(f"Expecting shape {list(shapes[name])} but got: {list(shape)}")


def _parse_columns(inputs, dtypes, max_rows, deadline):
    if not is_object(inputs):
        if len(dtypes) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        inputs = {next(iter(dtypes)): inputs}
    missing = next((name for name in dtypes if name not in inputs), None)
    if missing is not None:
        raise invalid_argument(f"Missing named input: {missing} in 'inputs' object.")
    arrays = {}
    for name, dtype in dtypes.items():
        shape, values = _infer_shape(inputs[name]), []
        if shape:
            check_num_rows(name, shape[0], max_rows)
        _append_values(inputs[name], 0, shape, dtype, values, deadline)
        arrays[name] = make_array(values, dtype, shape)
    return arrays


def _infer_shape(value, max_rank=MAX_RANK):
    """Returns the shape of nested lists, from their first elements."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    if len(shape) > max_rank:
        raise invalid_argument(
            f"lists are nested {len(shape)} deep, at most {max_rank} are possible"
        )
    return tuple(shape)


def _append_values(value, level, shape, dtype, values, deadline):
    """Appends the elements of nested lists of `shape` to `values`."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {preview_json(value)} found at incorrect level: {level + 1} in the "
                "JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        values.append(convert_scalar(value, dtype))
        return
    if level >= len(shape):
        raise invalid_argument(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for index, element in enumerate(value):
        if not index & 0xFFF:
            check_deadline(deadline, "while the request was read")
        _append_values(element, level + 1, shape, dtype, values, deadline)


def _make_element_error(index, name, error):
    key = "" if name is None else f" key: {name}"
    return invalid_argument(
        f"Failed to process element: {index}{key} of 'instances' list. Error: {error}"
    )


def _convert_nonfinite_literals(text, deadline):
    """Returns the document with Python's spellings of non-finite numbers for the server's.

    An unterminated string is cut after its opening quote: the decoder rejects it as before, but
    need not read it.

    Raises:
        ServingError: If a string has the escape of half a surrogate pair, which would be taken for
            a byte that is not UTF-8. Also if the deadline passes.
    """
    if not any(spelling in text for spelling in ("Inf", "-NaN", "\\ud", "\\uD")):
        return text
    padded = text + " " * MAX_ESCAPE  # so that every escape can be seen whole
    pieces, start = [], 0
    while (quote := text.find('"', start)) >= 0:
        pieces += _replace_nonfinite(text, start, quote)
        start = _find_string_end(padded, quote + 1, deadline)
        if start < 0:
            pieces.append('"')
            break
        pieces.append(text[quote:start])
    else:
        pieces += _replace_nonfinite(text, start, len(text))
    return "".join(pieces)


def _replace_nonfinite(text, start, end):
    """Yields the slices of a text without strings, with the spellings of the decoder."""
    while start < end:
        cut = NONFINITE_LETTERS.match(text, min(start + MAX_SLICE, end), end).end()
        piece = text[start:cut].replace("-NaN", "NaN")
        yield piece.replace("Infinity", "Inf").replace("Inf", "Infinity")
        start = cut


def _find_string_end(text, start, deadline):
    """Returns the index after the closing quote of a string; -1 if there is none."""
    while start < len(text):
        check_deadline(deadline, "while the request was read")
        start = STRING_CONTENT.match(text, start, start + MAX_SLICE).end()
        if text.startswith('"', start):
            return start + 1
        if LOW_SURROGATE.match(text, start):
            raise invalid_argument("JSON Parse error: The surrogate pair in string is invalid.")
    return -1


def _keep_first_values(pairs):
    """Returns an object with the first value of each repeated key."""
    return dict(reversed(pairs)) if len(dict(pairs)) < len(pairs) else dict(pairs)


def _parse_double(text):
    value = float(text)
    if math.isinf(value):
        raise _make_too_big_error()
    return value


def _make_too_big_error():
    return invalid_argument("JSON Parse error: Number too big to be stored in double.")


_DECODER = json.JSONDecoder(object_pairs_hook=_keep_first_values, parse_float=_parse_double)


@contextlib.contextmanager
def pause_garbage_collection():
    """Pauses the garbage collector; several threads may do so at the same time.

    A JSON document of millions of lists has no cycles. Collections while it is parsed would take
    ten times as long as the parsing, and block all other threads.
    """
    global _num_pauses, _was_enabled
    with _COLLECTOR_LOCK:
        if not _num_pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _num_pauses += 1
    try:
        yield
    finally:
        with _COLLECTOR_LOCK:
            _num_pauses -= 1
            if not _num_pauses and _was_enabled:
                gc.enable()
