"""Lines of bulk translation: their inputs for a signature, and the JSON of their outputs.

A line is a tuple `(file, number, values)`, with a value for each input of the signature. Nothing
here needs Apache Beam.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attention.export.serving._json_responses import dump_json, make_lists
from keras_attention.export.serving.errors import ServingError

#: The score in place of a hypothesis that the search did not find.
NO_HYPOTHESIS = -1e9
MAX_SHOWN_CHARACTERS = 1000  # of a line that failed
MAX_INT32 = 2**31 - 1


def list_columns(definition) -> list[tuple[str, str]]:
    """Returns the name and the dtype of each column of a line, `text` first.

    Args:
        definition: `SignatureDef` of the signature.

    Raises:
        ValueError: If an input is not one string, int32 or float32 for each example.
    """
    columns = []
    for name, info in sorted(definition.inputs.items(), key=lambda pair: (pair[0] != "text", pair)):
        dtype = tf.as_dtype(info.dtype).name
        if len(info.tensor_shape.dim) != 1 or dtype not in ("string", "int32", "float32"):
            raise ValueError(
                f"Its input {name} is not one string, int32 or float32 for each example"
            )
        columns.append((name, dtype))
    return columns


def parse_text(content: bytes, columns: Sequence[tuple[str, str]], max_bytes: int) -> tuple:
    r"""Returns the values of a line of a text file: one for each column.

    Several columns are separated by tabs.

    Raises:
        ValueError: If the line is empty, too long or not UTF-8, or does not match the columns.

    >>> parse_text(b"ein Hund\ta dog\n", [("text", "string"), ("target", "string")], 100)
    (b'ein Hund', b'a dog')
    """
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    _check_length(content, max_bytes)
    parts = content.split(b"\t") if len(columns) > 1 else [content]
    if len(parts) != len(columns) and content.strip():
        names = ", ".join(name for name, _ in columns)
        raise ValueError(f"expected {len(columns)} columns ({names}), found {len(parts)}")
    if not content.strip():
        raise ValueError("empty")
    return tuple(
        _convert_text(name, dtype, part) for (name, dtype), part in zip(columns, parts, strict=True)
    )


def parse_example(content: bytes, columns: Sequence[tuple[str, str]], max_bytes: int) -> tuple:
    """Returns the values of a record, a `tf.train.Example` with one feature for each column.

    Raises:
        ValueError: As `parse_text`.
    """
    try:
        features = tf.train.Example.FromString(content).features.feature
    except DecodeError:
        raise ValueError("not a tf.train.Example") from None
    values = []
    for name, dtype in columns:
        kind = {"string": "bytes_list", "int32": "int64_list", "float32": "float_list"}[dtype]
        found = getattr(features[name], kind).value if name in features else ()
        if len(found) != 1:
            raise ValueError(f"feature {name}: expected 1 value of {kind}, found {len(found)}")
        if dtype == "string":
            _check_length(found[0], max_bytes)
        part = found[0] if dtype == "string" else str(found[0]).encode()
        values.append(_convert_text(name, dtype, part))
    return tuple(values)


def _check_length(content, max_bytes):
    if len(content) > max_bytes:
        raise ValueError(f"{len(content):,} bytes, at most {max_bytes:,} are allowed")


def _convert_text(name, dtype, part):
    """Returns the value of a column: bytes of UTF-8, an int or a float."""
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8: byte {error.start + 1}") from None
    if dtype == "string":
        if not text.strip():
            raise ValueError(f"{name} is empty")
        return part
    try:
        value = int(text) if dtype == "int32" else float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= (MAX_INT32 if dtype == "int32" else float(np.finfo(np.float32).max)):
        raise ValueError(f"{name} is no {dtype}: {text[:40]!r}")
    return value


def run_lines(
    run, lines: Sequence[tuple], columns: Sequence[tuple[str, str]], n_best: int | None = None
) -> Iterable[tuple[bool, bytes]]:
    """Yields `(True, answer)` or `(False, failure)` for each line, both JSON.

    If the model fails on a batch, its halves run apart, down to the lines that fail by themselves.

    Args:
        run: Function from a dict of input arrays to a dict of output arrays.
        lines: The lines of a batch.
        columns: As `list_columns` returns them.
        n_best: Number of hypotheses to keep; None for all.
    """
    inputs = {}
    for place, (name, dtype) in enumerate(columns):
        column = np.empty(len(lines), object if dtype == "string" else dtype)
        column[:] = [values[place] for _, _, values in lines]
        inputs[name] = column
    try:
        outputs = run(inputs)
        for name, array in outputs.items():
            if len(array) != len(lines):
                message = f"output {name} has {len(array)} rows for {len(lines)} lines"
                raise ServingError("INTERNAL", message)
    except ServingError as error:
        if len(lines) > 1:
            middle = len(lines) // 2
            yield from run_lines(run, lines[:middle], columns, n_best)
            yield from run_lines(run, lines[middle:], columns, n_best)
        else:
            ((file, number, values),) = lines
            content = b"\t".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
            yield False, format_failure(file, number, content, str(error))
        return
    for row, (file, number, values) in enumerate(lines):
        answer = {
            "file": file,
            "line": number,
            "inputs": {
                name: value.decode() if isinstance(value, bytes) else value
                for (name, _), value in zip(columns, values, strict=True)
            },
            "outputs": remove_padding(
                {name: array[row] for name, array in outputs.items()}, n_best
            ),
        }
        yield True, dump_json(answer)


def format_failure(file: str, number: int, content: bytes, reason: str) -> bytes:
    """Returns the JSON of a line that failed, with the beginning of the line."""
    shown = content.rstrip(b"\r\n").decode("utf-8", "replace")[:MAX_SHOWN_CHARACTERS]
    return dump_json({"file": file, "line": number, "error": reason, "input": shown})


def remove_padding(outputs: dict, n_best: int | None = None) -> dict:
    """Returns the outputs of one example as lists, without what pads them to their batch.

    Hypotheses that the search did not find are left out, too. Outputs are the same in any batch.

    Args:
        outputs: Dict of arrays, an example's outputs of a signature.
        n_best: Number of hypotheses to keep; None for all.

    >>> score = np.array([-0.5, -1e9], "float32")
    >>> remove_padding({"text": np.array([b"a dog", b""], object), "score": score})
    {'text': ['a dog'], 'score': [-0.5]}
    """
    outputs = {
        name: np.asarray(value, getattr(value, "dtype", object)) for name, value in outputs.items()
    }
    if outputs.get("score", np.zeros(())).ndim == 1:
        kept = int(np.sum(outputs["score"] > NO_HYPOTHESIS))
        kept = kept if n_best is None else min(kept, n_best)
        outputs = {
            name: array if name.startswith("source_") else array[:kept]
            for name, array in outputs.items()
        }
    source_length = outputs.get("source_length")
    found = {}
    for name, array in outputs.items():
        if name == "source_tokens" and source_length is not None:
            array = array[:source_length]
        if name == "alignment" and source_length is not None:
            array = array[..., :source_length]
        if name in ("tokens", "ids", "token_log_prob", "alignment") and "length" in outputs:
            found[name] = _cut(name, array, outputs["length"])
        else:
            found[name] = make_lists(name, array)
    return found


def _cut(name, array, length):
    """Returns lists of the first `length` tokens, for one hypothesis or for each."""
    if length.ndim == 0:
        return make_lists(name, array[:length])
    return [make_lists(name, part[:size]) for part, size in zip(array, length, strict=True)]
