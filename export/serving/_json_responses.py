"""Writes responses in the JSON of TensorFlow Serving's REST interface.

`{"predictions": [...]}` for row format, `{"outputs": {...}}` for columnar format, as
`tensorflow_serving/util/json_tensor.cc` writes them.
"""

import base64
import json

import numpy as np

from keras_attention.export.serving._tensor_protos import count_string_bytes
from keras_attention.export.serving.errors import (
    check_deadline,
    invalid_argument,
    response_too_long,
)

SUPPORTED_DTYPES = frozenset(
    {
        *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint32", "uint64"),
    }
)
MAX_PIECE_VALUES = 2**16  # values that are Python objects at the same time
SAMPLE_SIZE = 2**12  # values whose length is measured to estimate the size of an output


class JsonWriter:
    """Writes a signature's outputs as JSON in pieces, to limit the memory.

    Strings are written unchanged, or as base64 objects if the output's name ends in `_bytes`. NaN
    and infinities become `NaN`, `Infinity` and `-Infinity`, which strict parsers refuse. The name
    of a single output is omitted.

    Args:
        rows: Whether the request was in row format: `predictions`, else `outputs`.
        max_bytes: Maximum size of a response; None for no limit.
    """

    def __init__(self, rows: bool, max_bytes: int | None = None):
        self._rows, self._max_bytes = rows, max_bytes

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns an estimate of the bytes of JSON."""
        return sum(_estimate_size(name, array) for name, array in outputs.items())

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None = None) -> list[bytes]:
        """Returns the pieces of the JSON.

        Args:
            outputs: Dict of arrays.
            deadline: Time on `time.monotonic()` after which the client has given up.

        Raises:
            ServingError: If the outputs of a row-format request differ in their batch size, the
                response is too long or the deadline passes.
        """
        if not outputs:
            raise invalid_argument("Cannot convert empty tensor map to JSON")
        if self._rows:
            _check_rows(outputs)
        pieces, size = [], 0
        for piece in self._pieces(dict(sorted(outputs.items()))):
            pieces.append(_encode_text(piece))
            size += len(pieces[-1])
            if self._max_bytes is not None and size > self._max_bytes:
                raise response_too_long(self._max_bytes)
            check_deadline(deadline, "while the answer was written")
        return pieces

    def _pieces(self, outputs):
        yield '{"predictions": ' if self._rows else '{"outputs": '
        if len(outputs) == 1:
            ((name, array),) = outputs.items()
            yield from _array_pieces(name, array)
        elif self._rows:
            yield from _row_pieces(outputs)
        else:
            yield from _object_pieces(outputs)
        yield "}"


def write_response(outputs: dict[str, np.ndarray], rows: bool) -> bytes:
    """Returns the JSON of outputs of any size; see `JsonWriter`."""
    return b"".join(JsonWriter(rows).write(outputs))


def dump_json(document: dict) -> bytes:
    """Returns `document` as JSON; surrogate escapes become their bytes."""
    return _encode_text(_dump_text(document))


def _dump_text(value):
    return json.dumps(value, ensure_ascii=False)


def _encode_text(text):
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, quoted in an error message
        return text.encode("utf-8", "replace")


def _row_pieces(outputs):
    """Yields a list of objects in pieces of about `MAX_PIECE_VALUES` values."""
    num_rows = len(next(iter(outputs.values())))
    size = sum(array.size for array in outputs.values())
    step = max(1, MAX_PIECE_VALUES * num_rows // max(size, 1))
    yield "["
    for start in range(0, num_rows, step):
        if start:
            yield ", "
        block = {name: array[start : start + step] for name, array in outputs.items()}
        if step == 1:
            yield from _object_pieces({name: array[0, ...] for name, array in block.items()})
            continue
        values = [make_lists(name, array) for name, array in block.items()]
        rows = [dict(zip(block, row, strict=True)) for row in zip(*values, strict=True)]
        yield _dump_text(rows)[1:-1]
    yield "]"


def _object_pieces(outputs):
    for number, (name, array) in enumerate(outputs.items()):
        yield f"{', ' if number else '{'}{_dump_text(name)}: "
        yield from _array_pieces(name, array)
    yield "}"


def _array_pieces(name, array):
    """Yields the nested lists of an array in pieces of about `MAX_PIECE_VALUES` values."""
    if array.size <= MAX_PIECE_VALUES:
        yield _dump_text(make_lists(name, array))
        return
    step = max(1, MAX_PIECE_VALUES * len(array) // array.size)
    yield "["
    for start in range(0, len(array), step):
        if start:
            yield ", "
        if step == 1:
            yield from _array_pieces(name, array[start])
        else:
            yield _dump_text(make_lists(name, array[start : start + step]))[1:-1]
    yield "]"


def _check_rows(outputs):
    expected = None
    for name, array in sorted(outputs.items()):
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if expected not in (None, len(array)):
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {expected}"
            )
        expected = len(array)


def _estimate_size(name, array):
    """Returns an estimate of the bytes of an array's JSON, from a sample for numbers."""
    if array.dtype.kind == "O":
        factor = 4 / 3 if name.endswith("_bytes") else 1
        return int(factor * count_string_bytes(array)) + 4 * array.size
    sample = array.ravel()[:: max(1, array.size // SAMPLE_SIZE)]
    return len(_dump_text(make_lists(name, sample))) * array.size // max(1, sample.size)


def make_lists(name, array):
    """Returns an output as nested lists for JSON."""
    if array.dtype.kind != "O":
        if array.dtype.name not in SUPPORTED_DTYPES:
            raise invalid_argument(
                f"Failed to write JSON value for tensor type: {array.dtype.name}"
            )
        return (_shorten_floats(array) if array.dtype == np.float32 else array).tolist()
    flat = np.empty(array.size, dtype=object)
    if name.endswith("_bytes"):
        flat[:] = [{"b64": base64.b64encode(text).decode()} for text in array.ravel()]
    else:
        flat[:] = [text.decode("utf-8", "surrogateescape") for text in array.ravel()]
    return flat.reshape(array.shape).tolist()


def _shorten_floats(array):
    """Returns the float64 numbers with the fewest digits that round to a float32 array."""
    with np.errstate(invalid="ignore"):  # signaling NaNs
        exact = array.astype(np.float64).ravel()
    size = np.abs(exact)
    # Outside this range powers of ten are not exact. Nine digits distinguish all float32 numbers.
    usual = np.flatnonzero((size > 1e-13) & (size < 1e27))
    other = np.flatnonzero((size <= 1e-13) & (size > 0) | (size >= 1e27) & np.isfinite(size))
    exact[other] = [float(str(value)) for value in array.ravel()[other]]
    for digits in range(6, 10):
        number = exact[usual]
        shift = digits - 1 - np.floor(np.log10(np.abs(number)))
        scale = 10.0 ** np.abs(shift)
        near = np.where(
            shift >= 0, np.rint(number * scale) / scale, np.rint(number / scale) * scale
        )
        same = near.astype(np.float32) == array.ravel()[usual]
        exact[usual[same]] = near[same]
        usual = usual[~same]
    return exact.reshape(array.shape)
