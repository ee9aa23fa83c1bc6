"""The JSON codec keeps the rules of the model server's REST interface (json_tensor.cc)."""

import gc
import json
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.protobuf import meta_graph_pb2

from keras_attention.export.serving import ServingError, _json_requests, _json_responses
from keras_attention.export.serving._allocator import pause_garbage_collection
from keras_attention.export.serving._json_requests import parse, parse_inputs, signature_name
from keras_attention.export.serving._json_responses import JsonWriter, dump_json, write_response


def infos(**dtypes):
    return {
        name: meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum)
        for name, dtype in dtypes.items()
    }


TEXT = infos(text=tf.string)
FLOATS = infos(x=tf.float32)
SEVERAL = infos(x=tf.float32, n=tf.int32)


def arrays(body, signature):
    return parse_inputs(parse(body), signature)


def error(body, signature):
    with pytest.raises(ServingError) as raised:
        document = parse(body)
        signature_name(document)
        parse_inputs(document, signature)
    assert raised.value.code == "INVALID_ARGUMENT"
    return raised.value.message


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


def repeated(start, part, end=b""):
    return lambda times: start + part * times + end


HOSTILE = {
    "escaped quotes": repeated(b'{"instances": ["Inf', b'\\"'),
    "backslashes": repeated(b'{"instances": ["Inf', b"\\"),
    "quotes": repeated(b'{"instances": ["Inf', b'"', b"]}"),
    "infinities": repeated(b'{"inputs": [', b"Inf,", b"1]}"),
    "infinities in a word": repeated(b'{"inputs": [', b"Inf"),
    "signs": repeated(b'{"inputs": [-NaN', b"-"),
    "surrogates": repeated(b'{"instances": ["', b"\\udc80", b'"]}'),
    "pairs": repeated(b'{"instances": ["', b"\\ud83d\\ude80", b'"]}'),
    "halves of pairs": repeated(b'{"instances": ["', b"\\ud83d", b'"]}'),
    "bytes that are no text": repeated(b'{"instances": ["', b"\xff", b'"]}'),
    "digits": repeated(b'{"inputs": [', b"9", b"]}"),
    "decimals": repeated(b'{"inputs": [0.', b"1", b"]}"),
    "exponent": repeated(b'{"inputs": [1e', b"9", b"]}"),
    "long numbers": repeated(b'{"inputs": [', b"9" * 4000 + b",", b"1]}"),
    "numbers": repeated(b'{"inputs": [', b"1,", b"1]}"),
    "lists": repeated(b'{"inputs": [', b"[],", b"[]]}"),
    "objects": repeated(b'{"instances": [', b'{"x": 1},', b"{}]}"),
    "nested lists": repeated(b'{"inputs": ', b"["),
    "nested objects": repeated(b"", b'{"inputs":'),
    "keys": repeated(b'{"inputs": 1', b', "a": 1', b"}"),
    "white space": repeated(b'{"inputs": Inf', b" "),
    "base64": repeated(b'{"inputs": [{"b64": "', b"AAAA", b'"}]}'),
    "padding of base64": repeated(b'{"inputs": [{"b64": "', b"=", b'"}]}'),
    "base64 with spaces": repeated(b'{"inputs": [{"b64": "', b"A ", b'"}]}'),
}


def seconds_for(body, signature):
    """Processor time until a body is read or refused; the least of three."""

    def once():
        begun = time.process_time()
        try:
            arrays(body, signature)
        except ServingError:
            pass
        return time.process_time() - begun

    return min(once() for _ in range(3))


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_to_read_a_body_grows_as_the_body_does(name):
    """Eight times the body may take sixteen times as long, not the sixty-four of a square."""
    body, signature = HOSTILE[name], TEXT if b"instances" in HOSTILE[name](1) else FLOATS
    times = 20_000 // len(body(1_000)) * 1_000 or 10
    assert seconds_for(body(8 * times), signature) < 0.01 + 16 * seconds_for(body(times), signature)


def test_a_string_that_nothing_ends_is_refused_at_once():
    body = b'{"instances": ["Inf' + b'\\"' * 40_000
    with pytest.raises(ServingError, match="Unterminated string"):
        parse(body)
    assert seconds_for(body, TEXT) < 0.05


def test_an_unterminated_string_lets_other_threads_run():
    """One match over all of it held the interpreter for half a second."""
    body = b'{"instances": ["Inf' + b'\\"' * 4_000_000

    def measure_longest_wait():
        longest, last, done = 0.0, time.monotonic(), threading.Event()

        def refuse():
            with pytest.raises(ServingError, match=r"Unterminated string .* offset: 15"):
                parse(body)
            done.set()

        reader = threading.Thread(target=refuse)
        reader.start()
        while not done.is_set():
            time.sleep(0.001)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        reader.join()
        return longest

    assert min(measure_longest_wait() for _ in range(3)) < 0.15


@pytest.mark.parametrize("size", [12, 13, 29])
def test_slices_divide_no_spelling_and_no_escape(size, monkeypatch):
    body = b'{"inputs": [1,-Infinity,Inf,-NaN,Infinity,-Inf], "%s": ["%s"]}' % (
        b'Inf\\"\\u00e4\\\\-NaN' * 9,
        b"\\ud83d\\ude80\\\\udc80\\ud83d" * 9,
    )
    expected = parse(body)
    assert expected["inputs"][1:3] == [-np.inf, np.inf] and len(expected) == 2
    monkeypatch.setattr(_json_requests, "MAX_SLICE", size)
    for start in range(size):
        found = parse(b'{"%s":0,' % (b"x" * start) + body[1:])
        del found["x" * start]
        np.testing.assert_equal(found, expected)
        with pytest.raises(ServingError, match="surrogate pair"):
            parse(b'{"a": ["%s\\ud83d\\n\\ude80"]}' % (b"x" * start))


def test_a_quote_behind_the_document_is_not_read():
    assert parse(b'{"a": -Inf} "and more') == {"a": -np.inf}


def test_reading_a_body_ends_with_its_deadline():
    passed = time.monotonic()
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: .* while the request was read"):
        parse(b'{"inputs": "Inf"}', passed)
    for document in ({"inputs": [[1] * 5]}, {"instances": [[1] * 5]}):
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: .* while the request was read"):
            parse_inputs(document, FLOATS, 7, passed)


@pytest.mark.parametrize("key", ["instances", "inputs"])
@pytest.mark.parametrize("name", [None, "x"])
def test_rows_are_counted_before_they_are_read(key, name, monkeypatch):
    rows = [[1.0]] * 8
    if name:
        rows = [{name: row} for row in rows] if key == "instances" else {name: rows}
    assert parse_inputs({key: rows}, FLOATS, 8)[0]["x"].shape == (8, 1)
    monkeypatch.setattr(_json_requests, "convert_scalar", None)
    with pytest.raises(
        ServingError, match="input x has 8 examples, more than 7. Send them in several"
    ):
        parse_inputs({key: rows}, FLOATS, 7)


def test_a_spelling_is_read_as_far_as_it_goes():
    assert "JSON Parse error" in error(b'{"inputs": [Infinit]}', FLOATS)
    assert "JSON Parse error" in error(b'{"inputs": [-Nan]}', FLOATS)
    found, _ = arrays(b'{"inputs": [1, Inf], "Inf\\\\": "-NaN\\"", "b": [Infinity]}', FLOATS)
    assert found["x"].tolist() == [1, np.inf]


def test_reading_pauses_the_collector_and_leaves_it_as_it_was():
    parse(b'{"a": [[]]}')
    assert gc.isenabled()
    with pause_garbage_collection():
        with pause_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        parse(b"{}")
        assert not gc.isenabled()
    finally:
        gc.enable()
