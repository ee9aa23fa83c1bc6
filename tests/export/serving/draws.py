"""Rows and requests such as nobody expects, drawn for the fuzzer."""

import dataclasses

import numpy as np

from keras_attention.export.serving._tensor_protos import encode_strings

LETTERS = "abcdefghijklm <de>."
ODD = [*"\0äé犬\u202e\u200b\ufeff\t\nßX", "e\u0301", "👩‍🚀", "שלום"]
BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80\x80"]
NUMBERS = {
    "length_penalty": [0.0, 0.6, 1.0, -1.0, 1e30, -1e30, np.nan, np.inf, -np.inf],
    "max_length": [1, 2, 5, 0, -7, 2**31 - 1, -(2**31)],
    "temperature": [0.0, 1.0, 0.3, -1.0, 1e-30, 1e30, np.nan, np.inf, -np.inf],
    "seed": [0, 1, -1, 2**31 - 1, -(2**31)],
}
KNOWN = {"text", "target", "ids", "length", *NUMBERS}


@dataclasses.dataclass
class Request:
    """What is asked, and the pool's rows it is made of; None where it must be refused."""

    signature: str
    inputs: dict
    rows: list[int] | None
    output_filter: tuple = ()


def draw_row(generator, definition) -> dict:
    """Returns a row of a signature: what each input is for it."""
    row = {}
    for name in definition.inputs:
        if name in ("text", "target"):
            row[name] = text(generator)
        elif name == "ids":
            likely = generator.random() < 0.8
            low, high = (4, 20) if likely else (-(2**31), 2**31 - 1)
            row[name] = generator.integers(low, high, generator.integers(0, 14)).astype("int32")
        elif name == "length":
            lengths = generator.integers(0, 20) if generator.random() < 0.8 else -(2**31)
            row[name] = np.int32(lengths)
        else:
            kind = np.float32 if definition.inputs[name].dtype == 1 else np.int32
            row[name] = kind(_pick(generator, NUMBERS[name]))
    if "ids" in row:
        row["length"] = min(row["length"], np.int32(len(row["ids"])))
    return row


def text(generator) -> bytes:
    """Returns a text such as nobody expects."""
    kind = generator.random()
    size = generator.integers(0, 9)
    if kind < 0.5:
        return "".join(_pick(generator, LETTERS) for _ in range(size)).encode()
    if kind < 0.8:
        return "".join(_pick(generator, [*ODD, *LETTERS]) for _ in range(size)).encode()
    if kind < 0.9:
        return b"".join(_pick(generator, [*BYTES, b"a", b"hi "]) for _ in range(size))
    if kind < 0.97:
        return b"" if kind < 0.93 else b" " * size
    return b"abc " * 1000


def break_rule(generator, request: Request) -> Request:
    """Returns the request with one rule of its signature broken."""
    inputs, name = dict(request.inputs), str(generator.choice(sorted(request.inputs)))
    array, rule, output_filter = inputs[name], generator.integers(7), ()
    signature = request.signature
    if rule == 0:
        del inputs[name]
    elif rule == 1:
        inputs["another"] = array
    elif rule == 2:
        inputs[name] = array[None]
    elif rule == 3:
        strings = array.dtype.kind == "O"
        inputs[name] = np.zeros(array.shape, "float32") if strings else encode_strings([b"a"])
        if not strings:
            inputs[name] = np.broadcast_to(inputs[name][0], array.shape).astype(object)
    elif rule == 4:
        signature += _pick(generator, ["x", " ", "\0", "/../..", "ä"])
    elif rule == 5:
        output_filter = ("nothing",)
    else:
        inputs[name] = np.zeros((), array.dtype) if array.dtype.kind != "O" else _scalar()
    return Request(signature, inputs, None, output_filter)


def pad_ids(generator, row, widest: int):
    """Returns the ids of a row and junk up to `widest`."""
    junk = generator.integers(-5, 40, widest - len(row["ids"]))
    return np.concatenate([row["ids"], junk])


def stack(values, info=None) -> np.ndarray:
    """Returns rows of one input as an array, of the dtype in `info` where there are none."""
    if info is not None and info.dtype == 7 or values and isinstance(values[0], bytes):
        return encode_strings(values)
    dtype = None if info is None else {1: "float32", 3: "int32"}[info.dtype]
    return np.array(values, dtype)


def _pick(generator, values):
    # Not `generator.choice`: NumPy would take the NUL bytes off the ends of strings.
    return values[generator.integers(len(values))]


def _scalar():
    array = np.empty((), object)
    array[()] = b"a"
    return array
