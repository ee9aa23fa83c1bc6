"""Lines of bulk translation: their inputs for a signature, and the JSON of their outputs.

A line is a tuple `(file, number, values)`, with a value for each input of the signature. Nothing
here needs Apache Beam.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attention.export.serving._json_responses import dump_json, make_lists
from keras_attention.export.serving.errors import ServingError
from keras_attention.search.beam import PADDING_SCORE

MAX_SHOWN_CHARACTERS = 1000  # of a line that failed
MAX_INT32 = 2**31 - 1
SOURCE = re.compile(r"text(_\d+)?")  # the input of one of several sources
# Outputs with an entry for each of `length` tokens or steps, unless they are one per example.
OUTPUTS_OF_LENGTH = frozenset(
    {"tokens", "ids", "token_log_prob", "log_probabilities", "alignment"}
    | {"parent", "log_prob", "state"}  # of `beam_tree`, like its `tokens`
)


def list_columns(definition) -> list[tuple[str, str]]:
    """Returns the name and the dtype of each column of a line, `text` first.

    Args:
        definition: `SignatureDef` of the signature.

    Raises:
        ValueError: If an input is not a single string, int32 or float32 per example.
    """
    columns = []
    for name in sorted(definition.inputs, key=_rank_column):
        info = definition.inputs[name]
        dtype = tf.as_dtype(info.dtype).name
        if len(info.tensor_shape.dim) != 1 or dtype not in ("string", "int32", "float32"):
            raise ValueError(f"input {name} is not a single string, int32 or float32 per example")
        columns.append((name, dtype))
    return columns


def _rank_column(name):
    """Returns a key that puts `text` first, and `text_2` before `text_10`."""
    parts = re.split(r"(\d+)", name)
    return name != "text", [int(part) if part.isdecimal() else part for part in parts]


def parse_text(content: bytes, columns: Sequence[tuple[str, str]], max_bytes: int) -> tuple:
    r"""Returns the values of a line of a text file: one for each column.

    Several columns are separated by tabs.

    Raises:
        ValueError: If the line or a text other than `phrases` and one of several sources is empty,
            or the line is too long, not UTF-8 or does not match the columns.

    >>> parse_text(b"ein Hund\ta dog\n", [("text", "string"), ("target", "string")], 100)
    (b'ein Hund', b'a dog')
    """
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    _check_length(content, max_bytes)
    if not content.strip():
        raise ValueError("the line is empty")
    parts = content.split(b"\t") if len(columns) > 1 else [content]
    if len(parts) != len(columns):
        names = ", ".join(name for name, _ in columns)
        raise ValueError(f"expected {len(columns)} columns ({names}), found {len(parts)}")
    values = tuple(
        part if dtype == "string" else _parse_number(name, dtype, part)
        for (name, dtype), part in zip(columns, parts, strict=True)
    )
    _check_texts(columns, values)
    return values


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
            values.append(found[0])
        else:
            values.append(_check_number(name, dtype, found[0], str(found[0])))
    _check_texts(columns, values)
    return tuple(values)


def _check_length(content, max_bytes):
    if len(content) > max_bytes:
        raise ValueError(f"{len(content):,} bytes, at most {max_bytes:,} are allowed")


def _decode(name, content):
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8: byte {error.start + 1}") from None


def _check_texts(columns, values):
    """Raises `ValueError` if a text is not UTF-8 or empty.

    Phrases may be empty, and so may be a source, unless all are.
    """
    texts = {
        name: _decode(name, value).strip()
        for (name, dtype), value in zip(columns, values, strict=True)
        if dtype == "string"
    }
    has_source = any(text for name, text in texts.items() if SOURCE.fullmatch(name))
    for name, text in texts.items():
        may_be_empty = name == "phrases" or (has_source and SOURCE.fullmatch(name))
        if not text and not may_be_empty:
            raise ValueError(f"{name} is empty")


def _parse_number(name, dtype, content):
    """Returns the int or float that `content` spells."""
    text = _decode(name, content)
    try:
        number = int(text) if dtype == "int32" else float(text)
    except ValueError:
        number = math.nan
    return _check_number(name, dtype, number, text)


def _check_number(name, dtype, number, text):
    """Returns `number`; raises `ValueError`, which quotes `text`, if it is not of the dtype."""
    limit = MAX_INT32 if dtype == "int32" else float(np.finfo(np.float32).max)
    if not abs(number) <= limit:  # also true for NaN
        raise ValueError(f"{name} is not a valid {dtype}: {text[:40]!r}")
    return number


def run_lines(
    run, lines: Sequence[tuple], columns: Sequence[tuple[str, str]], n_best: int | None = None
) -> Iterable[tuple[bool, bytes]]:
    """Yields `(True, answer)` or `(False, failure)` for each line, both JSON.

    If the model fails on a batch, each half runs by itself, down to the single lines that fail.

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
    """Returns the outputs of one example as lists, without the padding that the batch added.

    Hypotheses that the search did not find are left out, too. The result of a translator's
    signature does not depend on the batch in which the example ran. In other models only `tokens`
    and the other outputs of `OUTPUTS_OF_LENGTH` are cut, and only if there is an output `length`.

    Args:
        outputs: Dict of arrays, an example's outputs of a signature.
        n_best: Number of hypotheses to keep; None for all.

    >>> score = np.array([-0.5, -1e9], "float32")
    >>> remove_padding({"text": np.array([b"a dog", b""], object), "score": score})
    {'text': ['a dog'], 'score': [-0.5]}
    """
    # A row of a string array is a plain `bytes`, which NumPy would turn into a fixed-width string.
    outputs = {
        name: np.asarray(value, getattr(value, "dtype", object)) for name, value in outputs.items()
    }
    shapes = {name: array.shape for name, array in outputs.items()}
    if has_n_best(shapes):
        num_found = int(np.sum(outputs["score"] > PADDING_SCORE))
        num_kept = num_found if n_best is None else min(num_found, n_best)
        outputs = {
            name: array[:num_kept]
            if array.shape[:1] == shapes["score"] and not name.startswith("source_")
            else array
            for name, array in outputs.items()
        }
    source_length = outputs.get("source_length")
    lists = {}
    for name, array in outputs.items():
        if name == "source_tokens" and source_length is not None:
            array = array[:source_length]
        if name == "alignment" and source_length is not None:
            array = array[..., :source_length]
        if name in OUTPUTS_OF_LENGTH and array.ndim and "length" in outputs:
            lists[name] = _truncate(name, array, outputs["length"])
        else:
            lists[name] = make_lists(name, array)
    return lists


def has_n_best(shapes: Mapping[str, Sequence[int]]) -> bool:
    """Returns whether `score` is the score of each of several texts, best first.

    In other models it may be anything: the score of each class, for example.

    Args:
        shapes: The shape of each output of an example, without the batch.
    """
    score = tuple(shapes.get("score", ()))
    texts = (tuple(shapes.get(name, ())) for name in ("text", "ids"))
    return len(score) == 1 and any(shape[:1] == score for shape in texts)


def _truncate(name, array, length):
    """Returns lists of the first `length` tokens, for one hypothesis or for each."""
    if length.ndim == 0:
        return make_lists(name, array[:length])
    return [make_lists(name, part[:size]) for part, size in zip(array, length, strict=True)]
