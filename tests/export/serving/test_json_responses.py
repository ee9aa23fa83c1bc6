"""Answers are written in JSON by the rules of the model server (json_tensor.cc)."""

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.export.serving import ServingError, _json_responses
from keras_attention.export.serving._json_responses import JsonWriter, write_response


def test_several_outputs_are_named_and_one_is_not():
    outputs = {"b": np.array([1, 2]), "a": np.array([[True], [False]])}
    assert json.loads(write_response(outputs, rows=True)) == {
        "predictions": [{"a": [True], "b": 1}, {"a": [False], "b": 2}]
    }
    assert json.loads(write_response(outputs, rows=False)) == {
        "outputs": {"a": [[True], [False]], "b": [1, 2]}
    }
    del outputs["a"]
    assert json.loads(write_response(outputs, rows=True)) == {"predictions": [1, 2]}
    assert json.loads(write_response(outputs, rows=False)) == {"outputs": [1, 2]}


def test_floats_are_written_with_the_fewest_digits_that_say_them():
    values = np.array([0.1, 2.0, -1e9, 1 / 3], "float32")
    assert write_response({"x": values}, rows=True) == (
        b'{"predictions": [0.1, 2.0, -1000000000.0, 0.33333334]}'
    )


def test_strings_are_written_raw_and_as_base64_where_the_name_says_bytes():
    text = np.array([b"\xc3\xa4\xff", b"\x00"], dtype=object)
    raw = write_response({"text": text}, rows=True)
    assert raw == b'{"predictions": ["\xc3\xa4\xff", "\\u0000"]}'
    coded = json.loads(write_response({"text_bytes": text}, rows=True))
    assert coded == {"predictions": [{"b64": "w6T/"}, {"b64": "AA=="}]}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_any_float32_is_written_with_the_digits_of_numpy(bits):
    values = np.array(bits, "uint32").view("float32")
    expected = [float(str(value)) for value in values]
    found = json.loads(write_response({"x": values}, rows=False))["outputs"]
    assert np.array_equal(found, expected, equal_nan=True)


SHAPES = st.lists(st.integers(0, 7), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 7), SHAPES, SHAPES, st.booleans())
def test_pieces_are_together_what_one_piece_is(num_rows, first, second, rows):
    generator = np.random.default_rng(num_rows)
    texts = np.array([b"a\0", b"", "ä".encode(), b'"'], dtype=object)
    outputs = {
        "a": generator.standard_normal([num_rows, *first]).astype("float32"),
        "b": texts[generator.integers(4, size=[num_rows, *second])],
        "c": texts[generator.integers(4, size=num_rows)],
        "d_bytes": texts[generator.integers(4, size=num_rows)],
    }
    whole = write_response(outputs, rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_json_responses, "MAX_PIECE_VALUES", 5)
        assert write_response(outputs, rows) == whole
        for name, array in outputs.items():
            (found,) = json.loads(write_response({name: array}, rows)).values()
            expected = json.loads(whole)["predictions" if rows else "outputs"]
            expected = [row[name] for row in expected] if rows else expected[name]
            assert found == expected


def test_an_answer_that_takes_too_long_or_grows_too_long_is_given_up():
    outputs = {"x": np.ones((3, 100_000), "float32")}
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: .* while the answer was written"):
        JsonWriter(rows=True).write(outputs, deadline=time.monotonic())
    with pytest.raises(ServingError, match="longer than 1,000,000 bytes") as raised:
        JsonWriter(rows=True, max_bytes=1_000_000).write(outputs)
    assert (raised.value.code, raised.value.http_status) == ("RESOURCE_EXHAUSTED", 413)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "text", "raw_bytes"])
def test_the_size_of_an_answer_is_known_before_it_is_written(dtype):
    values = np.random.default_rng(3).uniform(0, 1000, (13, 1009))
    if dtype in ("text", "raw_bytes"):
        strings = [b"%d" % value**2 for value in values.ravel()]
        outputs = {dtype: np.array(strings, dtype=object).reshape(values.shape)}
    else:
        outputs = {"x": values.astype(dtype)}
    size = len(write_response(outputs, rows=True))
    # What an object in base64 has around its digits is not counted.
    assert 0.9 * size < JsonWriter(rows=True).size(outputs) < 1.1 * size or dtype == "raw_bytes"


@pytest.mark.parametrize(
    "outputs, message",
    [
        ({"a": np.array(1.0)}, "Tensor name: a has no shape information"),
        ({"a": np.ones(2), "b": np.ones(3)}, "Tensor name: b has inconsistent batch size: 3"),
        ({"a": np.ones(2, "float16")}, "Failed to write JSON value for tensor type: float16"),
        ({}, "Cannot convert empty tensor map to JSON"),
    ],
)
def test_what_rows_cannot_be_made_of(outputs, message):
    with pytest.raises(ServingError, match=message):
        write_response(outputs, rows=True)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (2, 0, 3), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32", object])
def test_outputs_of_any_size_come_back(shape, dtype):
    array = np.full(shape, b"a" if dtype is object else 7, dtype)
    expected = np.full(shape, "a" if dtype is object else 7, dtype).tolist()
    assert json.loads(write_response({"x": array}, rows=False)) == {"outputs": expected}
