"""Answers in the JSON of the model server's REST interface.

`{"predictions": [...]}` for a request of rows, `{"outputs": {...}}` for one of columns, as
`tensorflow_serving/util/json_tensor.cc` writes them.
"""

import base64
import json

import numpy as np

from keras_attention.export.serving.errors import check_deadline, invalid, too_long
from keras_attention.export.serving.tensors import string_bytes

WRITTEN = frozenset(
    {
        *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint32", "uint64"),
    }
)
PIECE = 2**16  # values that are Python objects at once
SAMPLE = 2**12  # values whose length stands for that of all


class JsonWriter:
    """Writes a signature's outputs as JSON, in pieces, so that no answer fills the memory.

    Strings are written as they are, as base64 objects where the output's name ends in
    `_bytes`; NaN and infinities as `NaN`, `Infinity` and `-Infinity`, which strict parsers
    refuse. The name of a single output is left out.

    Args:
        rows: Whether the request listed rows: `predictions`, else `outputs`.
        max_bytes: Longest answer, None for any length.
    """

    def __init__(self, rows: bool, max_bytes: int | None = None):
        self._rows, self._max_bytes = rows, max_bytes

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns about how many bytes of JSON the outputs take."""
        return sum(_size(name, array) for name, array in outputs.items())

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None = None) -> list[bytes]:
        """Returns the pieces of the JSON.

        Args:
            outputs: Dict of arrays.
            deadline: Time on `time.monotonic()` after which the answer is not wanted.

        Raises:
            ServingError: If rows are asked for and the outputs do not have as many, the answer
                is too long or the deadline passes.
        """
        if not outputs:
            raise invalid("Cannot convert empty tensor map to JSON")
        if self._rows:
            _check_rows(outputs)
        pieces, size = [], 0
        for piece in self._pieces(dict(sorted(outputs.items()))):
            pieces.append(_encoded(piece))
            size += len(pieces[-1])
            if self._max_bytes is not None and size > self._max_bytes:
                raise too_long(self._max_bytes)
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


def response_of(outputs: dict[str, np.ndarray], rows: bool) -> bytes:
    """Returns the JSON of outputs of any size; see `JsonWriter`."""
    return b"".join(JsonWriter(rows).write(outputs))


def dumped(document: dict) -> bytes:
    """Returns `document` as JSON; surrogate escapes become the bytes they stand for."""
    return _encoded(_text(document))


def _text(value):
    return json.dumps(value, ensure_ascii=False)


def _encoded(text):
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, quoted by an error message
        return text.encode("utf-8", "replace")


def _row_pieces(outputs):
    """A list of objects, as many at once as have `PIECE` values."""
    num_rows = len(next(iter(outputs.values())))
    size = sum(array.size for array in outputs.values())
    step = max(1, PIECE * num_rows // max(size, 1))
    yield "["
    for start in range(0, num_rows, step):
        if start:
            yield ", "
        block = {name: array[start : start + step] for name, array in outputs.items()}
        if step == 1:
            yield from _object_pieces({name: array[0, ...] for name, array in block.items()})
            continue
        values = [_values(name, array) for name, array in block.items()]
        rows = [dict(zip(block, row, strict=True)) for row in zip(*values, strict=True)]
        yield _text(rows)[1:-1]
    yield "]"


def _object_pieces(outputs):
    for number, (name, array) in enumerate(outputs.items()):
        yield f"{', ' if number else '{'}{_text(name)}: "
        yield from _array_pieces(name, array)
    yield "}"


def _array_pieces(name, array):
    """The nested lists of an array, `PIECE` values at a time."""
    if array.size <= PIECE:
        yield _text(_values(name, array))
        return
    step = max(1, PIECE * len(array) // array.size)
    yield "["
    for start in range(0, len(array), step):
        if start:
            yield ", "
        if step == 1:
            yield from _array_pieces(name, array[start])
        else:
            yield _text(_values(name, array[start : start + step]))[1:-1]
    yield "]"


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


def _size(name, array):
    """About how many bytes the JSON of an array has: of a sample, if it holds numbers."""
    if array.dtype.kind == "O":
        factor = 4 / 3 if name.endswith("_bytes") else 1
        return int(factor * string_bytes(array)) + 4 * array.size
    sample = array.ravel()[:: max(1, array.size // SAMPLE)]
    return len(_text(_values(name, sample))) * array.size // max(1, sample.size)


def _values(name, array):
    """An output as nested lists that JSON can hold."""
    if array.dtype.kind != "O":
        if array.dtype.name not in WRITTEN:
            raise invalid(f"Failed to write JSON value for tensor type: {array.dtype.name}")
        return (_shortest(array) if array.dtype == np.float32 else array).tolist()
    flat = np.empty(array.size, dtype=object)
    if name.endswith("_bytes"):
        flat[:] = [{"b64": base64.b64encode(text).decode()} for text in array.ravel()]
    else:
        flat[:] = [text.decode("utf-8", "surrogateescape") for text in array.ravel()]
    return flat.reshape(array.shape).tolist()


def _shortest(array):
    """The float64 numbers of the fewest digits that are still those of a float32 array."""
    with np.errstate(invalid="ignore"):  # NaNs that signal
        exact = array.astype(np.float64).ravel()
    size = np.abs(exact)
    # Beyond these a power of ten is not exact. Nine digits tell all float32 numbers apart.
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
