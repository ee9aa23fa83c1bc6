"""Answers in the JSON of the model server's REST interface.

`{"predictions": [...]}` for a request of rows, `{"outputs": {...}}` for one of columns, as
`tensorflow_serving/util/json_tensor.cc` writes them.
"""

import base64
import json

import numpy as np

from keras_attention.export.serving.errors import invalid

WRITTEN = frozenset(
    {
        *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint32", "uint64"),
    }
)


def response_of(outputs: dict[str, np.ndarray], rows: bool) -> bytes:
    """Returns the JSON of a signature's outputs; the name of a single output is left out.

    Strings are written as they are, as base64 objects where the output's name ends in
    `_bytes`; NaN and infinities as `NaN`, `Infinity` and `-Infinity`, which strict parsers
    refuse.

    Raises:
        ServingError: If rows are asked for and the outputs do not have as many.
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    if rows:
        _check_rows(outputs)
    values = {name: _values(name, array) for name, array in sorted(outputs.items())}
    if len(values) == 1:
        (answer,) = values.values()
    elif rows:
        answer = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    else:
        answer = values
    return dumped({"predictions" if rows else "outputs": answer})


def dumped(document: dict) -> bytes:
    """Returns `document` as JSON; surrogate escapes become the bytes they stand for."""
    text = json.dumps(document, ensure_ascii=False)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, quoted by an error message
        return text.encode("utf-8", "replace")


def _check_rows(outputs):
    expected = None
    for name, array in sorted(outputs.items()):
        if array.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if expected not in (None, len(array)):
            raise invalid(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {expected}"
            )
        expected = len(array)


def _values(name, array):
    """An output as nested lists that JSON can hold."""
    if array.dtype.kind != "O":
        if array.dtype == np.float32:
            # The shortest digits that give the same float32, not those of its double.
            flat = [float(str(value)) for value in array.ravel()]
            return _nested(flat, array.shape)
        if array.dtype.name not in WRITTEN:
            raise invalid(f"Failed to write JSON value for tensor type: {array.dtype.name}")
        return array.tolist()
    if name.endswith("_bytes"):
        flat = [{"b64": base64.b64encode(text).decode()} for text in array.ravel()]
    else:
        flat = [text.decode("utf-8", "surrogateescape") for text in array.ravel()]
    return _nested(flat, array.shape)


def _nested(flat, shape):
    array = np.empty(len(flat), dtype=object)
    array[:] = flat
    return array.reshape(shape).tolist()
