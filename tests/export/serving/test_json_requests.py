"""Requests in JSON are read by the rules of the model server's REST interface (json_tensor.cc)."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from json_bodies import FLOATS, SEVERAL, TEXT, arrays, error, infos

from keras_attention.export.serving import ServingError
from keras_attention.export.serving._json_requests import parse, signature_name
from keras_attention.export.serving._json_responses import dump_json, write_response


def test_rows_of_one_input_may_be_bare_values_or_objects():
    bare, rows = arrays(b'{"instances": ["a", "b", "c"]}', TEXT)
    named, _ = arrays(b'{"instances": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}', TEXT)
    assert rows
    assert bare["text"].tolist() == named["text"].tolist() == [b"a", b"b", b"c"]


def test_rows_of_several_inputs_become_one_array_each():
    body = b'{"instances": [{"x": [1, 2.5], "n": 3}, {"n": 4, "x": [5, -6]}]}'
    found, _ = arrays(body, SEVERAL)
    assert found["x"].dtype == np.float32 and found["x"].tolist() == [[1, 2.5], [5, -6]]
    assert found["n"].dtype == np.int32 and found["n"].tolist() == [3, 4]


@pytest.mark.parametrize(
    "body, shape",
    [
        (b'{"inputs": {"text": ["a", "b"]}}', (2,)),
        (b'{"inputs": ["a", "b", "c"]}', (3,)),
        (b'{"inputs": "a"}', ()),
        (b'{"inputs": {"b64": "YQ=="}}', ()),
        (b'{"inputs": {"text": []}}', (0,)),
        (b'{"inputs": {"text": [["a", "b", "c"], ["d", "e", "f"]], "unknown": 7}}', (2, 3)),
    ],
)
def test_columns_have_the_shape_of_their_lists(body, shape):
    found, rows = arrays(body, TEXT)
    assert not rows and found["text"].shape == shape


def test_bytes_come_as_base64_with_padding_or_without_and_with_nul_at_the_end():
    body = b'{"instances": [{"b64": "AP8A"}, {"b64": "+/8"}, "x\\u0000", "\xc3\xa4\xff"]}'
    found, _ = arrays(body, TEXT)
    assert found["text"].tolist() == [b"\x00\xff\x00", b"\xfb\xff", b"x\x00", b"\xc3\xa4\xff"]
    wrapped = (
        b'{"instances": [{"b64": "aG\\n k=\\n"}, {"b64": "aGk="}, {"b64": "aGk"}, {"b64": ""}]}'
    )
    assert arrays(wrapped, TEXT)[0]["text"].tolist() == [b"hi", b"hi", b"hi", b""]


def test_non_finite_numbers_are_read_and_written_as_the_server_does():
    found, _ = arrays(b'{"inputs": [NaN, Infinity, -Infinity]}', FLOATS)
    assert np.isnan(found["x"][0]) and found["x"][1:].tolist() == [np.inf, -np.inf]
    assert write_response(found, rows=False) == b'{"outputs": [NaN, Infinity, -Infinity]}'


def test_all_spellings_of_what_is_not_finite_are_read_outside_of_strings():
    found, _ = arrays(b'{"inputs": [Inf, -Inf, -NaN, -Infinity]}', FLOATS)
    assert found["x"][[0, 1, 3]].tolist() == [np.inf, -np.inf, -np.inf] and np.isnan(found["x"][2])
    body = b'{"instances": ["Inf -NaN \\"Inf\\" \\\\", "Infinity"], "signature_name": "Inf"}'
    assert arrays(body, TEXT)[0]["text"].tolist() == [b'Inf -NaN "Inf" \\', b"Infinity"]
    assert signature_name(parse(body)) == "Inf"


def test_floats_are_rounded_and_may_become_infinite():
    found, _ = arrays(b'{"inputs": [16777217, 1e39, -1e39, 9007199254740993]}', FLOATS)
    assert found["x"].tolist() == [16777216.0, np.inf, -np.inf, 9007199254740992.0]


def test_a_string_in_base64_fills_the_first_of_several_inputs_alone():
    found, _ = arrays(b'{"instances": [{"b64": "aGk="}]}', infos(target=tf.string, text=tf.string))
    assert {name: array.tolist() for name, array in found.items()} == {"target": [b"hi"]}


def test_half_of_a_surrogate_pair_is_no_byte_and_a_pair_is_a_character():
    body = b'{"instances": ["\\ud83d\\ude80", "\\\\udc80", "\x80"]}'
    assert arrays(body, TEXT)[0]["text"].tolist() == ["🚀".encode(), b"\\udc80", b"\x80"]
    assert "surrogate pair" in error(b'{"instances": ["\\udc80"]}', TEXT)


def test_what_follows_the_document_is_not_read():
    assert parse(b'{"a": 1} and more') == {"a": 1}


def test_a_byte_order_mark_is_passed_over_where_it_stands_first():
    """As by RapidJSON 1.1.0, the server's, called with the server's stream and flags."""
    assert parse(b'\xef\xbb\xbf {"a": 1}') == {"a": 1}
    assert "The document is empty" in error(b"\xef\xbb\xbf", TEXT)
    assert "JSON Parse error" in error(b' \xef\xbb\xbf{"a": 1}', TEXT)


def test_the_first_of_repeated_keys_counts():
    assert parse(b'{"a": 1, "b": 2, "a": 3}') == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "body, signature, message",
    [
        (b"", TEXT, "JSON Parse error: The document is empty"),
        (b" \n", TEXT, "JSON Parse error: The document is empty"),
        (b"{", TEXT, "JSON Parse error"),
        (b"[1]", TEXT, "Is not object"),
        (b'{"instances": ["\\ud800"]}', TEXT, "surrogate pair"),
        (b'{"inputs": [1e999]}', FLOATS, "too big"),
        (b'{"inputs": [' + b"9" * 5000 + b"]}", FLOATS, "JSON Parse error"),
        (b'{"inputs": ' + b"[" * 100000, TEXT, "recursion"),
        (b'{"inputs": ' + b"[" * 900 + b"]" * 900 + b"}", FLOATS, "lists are nested"),
        (b'{"signature_name": 1, "inputs": ["a"]}', TEXT, "must be a string value"),
        (b"{}", TEXT, "Missing 'inputs' or 'instances' key"),
        (b'{"instances": ["a"], "inputs": ["a"]}', TEXT, "only one of"),
        (b'{"instances": []}', TEXT, "No values in 'instances' array"),
        (b'{"instances": "a"}', TEXT, "Expecting 'instances' to be an list/array"),
        (b'{"instances": [1, 2]}', SEVERAL, "expecting list of objects as multiple"),
        (b'{"instances": [{"x": 1}]}', SEVERAL, "keys must be equal to: n,x"),
        (b'{"instances": [{"x": 1, "n": 2, "m": 3}]}', SEVERAL, "does not have named input: m"),
        (b'{"instances": [{"text": "a"}, "b"]}', TEXT, "Expecting object but got list at item 1"),
        (b'{"instances": ["a", {"text": "b"}]}', TEXT, "but got object at item 1"),
        (b'{"instances": [[1, 2], [3]]}', FLOATS, "Expecting tensor size: 2 but got: 1"),
        (
            b'{"instances": [[[1, 2]], [[3], [4]]]}',
            FLOATS,
            "Expecting shape [1, 2] but got: [2, 1]",
        ),
        (b'{"inputs": {"x": [1]}}', SEVERAL, "Missing named input: n in 'inputs' object."),
        (b'{"inputs": [1]}', SEVERAL, "expecting an object as multiple input tensors"),
        (b'{"inputs": [[1, 2], [3]]}', FLOATS, "unexpected size: 1 at level: 1 expected size: 2"),
        (b'{"inputs": [1, [2]]}', FLOATS, "Encountered list at unexpected level: 1"),
        (b'{"inputs": [[1], 2]}', FLOATS, "found at incorrect level: 2"),
        (b'{"inputs": ["a"]}', FLOATS, 'JSON Value: "a" Type: String is not of expected type'),
        (b'{"inputs": [true]}', FLOATS, "Type: True is not of expected type"),
        (b'{"inputs": [null]}', TEXT, "Type: Null is not of expected type"),
        (b'{"inputs": [' + b"9" * 400 + b"]}", FLOATS, "too big to be stored in double"),
        (b'{"inputs": {"x": [1], "n": [1.0]}}', SEVERAL, "Type: Number is not of expected type"),
        (b'{"inputs": {"x": [1], "n": [2147483648]}}', SEVERAL, "is not of expected type: int32"),
        (b'{"inputs": [{"b64": "a"}]}', TEXT, "Unable to base64 decode"),
        (b'{"inputs": [{"b64": "!!!!"}]}', TEXT, "Unable to base64 decode"),
        (b'{"inputs": [{"b64": "a-_k"}]}', TEXT, "Unable to base64 decode"),
        (b'{"inputs": [{"b64": "aGk=="}]}', TEXT, "Unable to base64 decode"),
        (b'{"inputs": [{"b64": "aGk= aGk="}]}', TEXT, "Unable to base64 decode"),
        (b'{"inputs": [{"b64": 1}]}', TEXT, "not formatted correctly for base64 data"),
        (b'{"inputs": [1]}', {}, "Failed to get input map"),
    ],
)
def test_what_a_request_may_not_be(body, signature, message):
    found = error(body, signature)
    assert message in found
    assert json.loads(dump_json({"error": found}))["error"]


def nest(depth):
    return b"[" * depth + b"1" + b"]" * depth


def test_lists_are_nested_as_deep_as_arrays_are():
    for body in (b'{"instances": [%s]}' % nest(63), b'{"inputs": %s}' % nest(64)):
        assert arrays(body, FLOATS)[0]["x"].shape == (1,) * 64
    message = "lists are nested 64 deep, at most 63 are possible"
    assert message in error(b'{"instances": [%s]}' % nest(64), FLOATS)
    assert message in error(b'{"instances": [{"x": %s}]}' % nest(64), FLOATS)
    message = "lists are nested 65 deep, at most 64 are possible"
    assert message in error(b'{"inputs": %s}' % nest(65), FLOATS)


@pytest.mark.parametrize("dtype", [tf.int8, tf.int16, tf.int64, tf.uint8, tf.uint32, tf.uint64])
def test_integers_keep_their_dtype(dtype):
    found, _ = arrays(b'{"inputs": [1, 101]}', infos(x=dtype))
    assert found["x"].dtype == dtype.as_numpy_dtype and found["x"].tolist() == [1, 101]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(st.sampled_from(["x", "n", "b64", "text"]), values, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(JSON_VALUES, st.sampled_from(["instances", "inputs"]), st.sampled_from([TEXT, SEVERAL]))
def test_any_json_is_read_or_refused(value, key, signature):
    body = json.dumps({key: value}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        found, _ = arrays(body, signature)
    except ServingError as refused:
        assert refused.code == "INVALID_ARGUMENT"
        return
    assert set(found) == set(signature)
    for name, array in found.items():
        expected = tf.as_dtype(signature[name].dtype)
        assert array.dtype == (object if expected == tf.string else expected.as_numpy_dtype)


def test_a_quote_behind_the_document_is_not_read():
    assert parse(b'{"a": -Inf} "and more') == {"a": -np.inf}


def test_a_spelling_is_read_as_far_as_it_goes():
    assert "JSON Parse error" in error(b'{"inputs": [Infinit]}', FLOATS)
    assert "JSON Parse error" in error(b'{"inputs": [-Nan]}', FLOATS)
    found, _ = arrays(b'{"inputs": [1, Inf], "Inf\\\\": "-NaN\\"", "b": [Infinity]}', FLOATS)
    assert found["x"].tolist() == [1, np.inf]
