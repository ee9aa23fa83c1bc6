"""Reading a JSON body takes a time in proportion to it, and ends with its deadline."""

import gc
import threading
import time

import numpy as np
import pytest
from json_bodies import FLOATS, TEXT, arrays

from keras_attention.export.serving import ServingError, _json_requests
from keras_attention.export.serving._json_requests import (
    parse,
    parse_inputs,
    pause_garbage_collection,
)


def repeat_text(start, part, end=b""):
    return lambda times: start + part * times + end


HOSTILE = {
    "escaped quotes": repeat_text(b'{"instances": ["Inf', b'\\"'),
    "backslashes": repeat_text(b'{"instances": ["Inf', b"\\"),
    "quotes": repeat_text(b'{"instances": ["Inf', b'"', b"]}"),
    "infinities": repeat_text(b'{"inputs": [', b"Inf,", b"1]}"),
    "infinities in a word": repeat_text(b'{"inputs": [', b"Inf"),
    "signs": repeat_text(b'{"inputs": [-NaN', b"-"),
    "surrogates": repeat_text(b'{"instances": ["', b"\\udc80", b'"]}'),
    "pairs": repeat_text(b'{"instances": ["', b"\\ud83d\\ude80", b'"]}'),
    "halves of pairs": repeat_text(b'{"instances": ["', b"\\ud83d", b'"]}'),
    "bytes that are no text": repeat_text(b'{"instances": ["', b"\xff", b'"]}'),
    "digits": repeat_text(b'{"inputs": [', b"9", b"]}"),
    "decimals": repeat_text(b'{"inputs": [0.', b"1", b"]}"),
    "exponent": repeat_text(b'{"inputs": [1e', b"9", b"]}"),
    "long numbers": repeat_text(b'{"inputs": [', b"9" * 4000 + b",", b"1]}"),
    "numbers": repeat_text(b'{"inputs": [', b"1,", b"1]}"),
    "lists": repeat_text(b'{"inputs": [', b"[],", b"[]]}"),
    "objects": repeat_text(b'{"instances": [', b'{"x": 1},', b"{}]}"),
    "nested lists": repeat_text(b'{"inputs": ', b"["),
    "nested objects": repeat_text(b"", b'{"inputs":'),
    "keys": repeat_text(b'{"inputs": 1', b', "a": 1', b"}"),
    "white space": repeat_text(b'{"inputs": Inf', b" "),
    "base64": repeat_text(b'{"inputs": [{"b64": "', b"AAAA", b'"}]}'),
    "padding of base64": repeat_text(b'{"inputs": [{"b64": "', b"=", b'"}]}'),
    "base64 with spaces": repeat_text(b'{"inputs": [{"b64": "', b"A ", b'"}]}'),
}


def seconds_for(body, signature):
    """CPU time until a body is read or refused; the least of three."""

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
