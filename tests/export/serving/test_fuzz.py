"""Random requests, good and bad, find every answer defined and every row by itself.

A million of them: `python tests/export/serving/fuzz.py`.
"""

import http.client
import json

import model_server
import numpy as np
import pytest
from fuzz import Fuzzer, connect, find_joinable, find_speakable, run_requests
from oracle import oracle_of_toy

from keras_attention.export.serving import Server

pytestmark = pytest.mark.thorough

ALLOWED = {200, 400, 404}


@pytest.fixture(scope="module")
def fuzzer(toy):
    """Asks three signatures: the first call of each takes a second, and all are asked below."""
    signatures = {name: toy.signatures[name] for name in ("serving_default", "ids", "greedy")}
    return Fuzzer(oracle_of_toy(), signatures, seed=7, pool=12)


def test_what_is_drawn_is_good_and_bad(fuzzer):
    drawn = [fuzzer.request(number) for number in range(300)]
    good = {request.signature for request in drawn if request.rows}
    assert good == {"serving_default", "ids", "greedy"}
    assert 80 < sum(request.rows is None for request in drawn) < 160
    assert any(request.rows == [] for request in drawn)


def test_a_request_can_be_repeated_by_its_number(fuzzer):
    first, again = fuzzer.request(11), fuzzer.request(11)
    assert first.signature == again.signature and first.rows == again.rows


def test_a_thousand_requests_in_this_process(fuzzer, toy):
    with connect(toy.server, "process") as ask:
        # One by one at first: threads that meet a new graph each prepare it, all of a second.
        assert run_requests(fuzzer, ask, range(20), threads=1) == []
        assert run_requests(fuzzer, ask, range(20, 1000)) == []
    assert fuzzer.counts["answered"] > 400


def test_two_hundred_requests_over_grpc(fuzzer, toy):
    with connect(toy.server, "grpc") as ask:
        assert run_requests(fuzzer, ask, range(2000, 2200)) == []


def test_two_hundred_requests_over_rest(fuzzer, toy):
    with connect(toy.server, "http") as ask:
        assert run_requests(fuzzer, ask, find_speakable(fuzzer, range(3000, 3350))) == []


@pytest.mark.slow
def test_ten_thousand_requests_to_all_signatures(toy):
    fuzzer = Fuzzer(oracle_of_toy(), toy.signatures, seed=11, pool=100)
    assert set(fuzzer.signatures) == {name for name in toy.signatures if name[0] != "_"}
    some = find_speakable(fuzzer, range(10_000, 12_000))
    for over, numbers in (("process", range(8000)), ("grpc", range(8000, 9500)), ("http", some)):
        with connect(toy.server, over) as ask:
            assert run_requests(fuzzer, ask, numbers) == []


@pytest.mark.skipif(not model_server.COMMAND, reason=model_server.MISSING)
@pytest.mark.parametrize("over", ["grpc", "http"])
def test_the_model_server_answers_every_signature(toy, toy_endpoint, over):
    """Good requests alone: what is wrong with others it may let the graph say."""
    fuzzer = Fuzzer(oracle_of_toy(), toy.signatures, seed=13, pool=20)
    assert set(fuzzer.signatures) == {name for name in toy.signatures if name[0] != "_"}
    with connect(toy_endpoint, over) as ask:
        assert run_requests(fuzzer, ask, find_joinable(fuzzer, range(600))) == []


def test_mixed_up_answers_are_noticed(fuzzer, toy):
    with connect(toy.server, "process") as ask:

        def ask_reversed(*request):
            return {name: array[::-1] for name, array in ask(*request).items()}

        failures = run_requests(fuzzer, ask_reversed, range(100))
    assert any("another answer" in failure for failure in failures)


def test_damaged_json_is_an_answer_or_an_error(tiny_base):
    """Bodies with bytes cut, changed and repeated: never another status, never no JSON."""
    generator = np.random.default_rng(3)
    bodies = [
        b'{"instances": ["abc", "d\\u00e4", {"b64": "YWJj"}]}',
        b'{"signature_name": "several", "instances": [{"x": [1.5, 2], "n": 3}]}',
        b'{"signature_name": "several", "inputs": {"x": [[1, -2e3]], "n": [1]}}',
    ]
    with Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=30)
        statuses = set()
        for number in range(600):
            body = _damage(generator, bodies[number % 3])
            connection.request("POST", "/v1/models/tiny:predict", body)
            response = connection.getresponse()
            answer = json.loads(response.read().decode("utf-8", "surrogateescape"))
            statuses.add(response.status)
            assert ("error" in answer) == (response.status != 200), body
        connection.close()
    assert statuses <= ALLOWED and {200, 400} <= statuses


def _damage(generator, body):
    body = bytearray(body)
    for _ in range(generator.integers(0, 4)):
        place, kind = generator.integers(len(body) or 1), generator.integers(3)
        if kind == 0:
            body[place : place + 1] = bytes([generator.integers(256)])
        elif kind == 1:
            del body[place : place + generator.integers(1, 9)]
        else:
            body[place:place] = body[: generator.integers(1, 12)]
    return bytes(body)
