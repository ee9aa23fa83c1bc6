"""Text over a socket while the search goes on, and what ends a stream."""

import contextlib
import http.client
import json
import socket
import time

import pytest
import toy_export

from keras_attention.export import SearchOptions, _warmup_requests, export_translator
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export.serving import Client, Server, ServingError
from keras_attention.export.serving._loaded_version import LoadedVersion

TEXTS = ["abc", "hij klm", ""]
SIGNATURES = ("greedy", "serving_default")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    model, source, target = toy_export.toy_parts()
    base = tmp_path_factory.mktemp("streamed") / "toy"
    search = SearchOptions(3, 23, 13, stream=True)
    with pytest.MonkeyPatch.context() as patch:  # requests that warm up take a minute
        patch.setattr(_warmup_requests, "replay_requests", lambda path, requests: [])
        path = export_translator(model, base, source=source, target=target, search=search)
    (path / _warmup_requests.WARMUP_FILE).unlink()
    write_manifest(path)
    return base


@pytest.fixture(scope="module")
def server(base):
    with Server({"toy": base}, grpc_port=0, rest_api_port=0, max_concurrency=1) as server:
        yield server


@pytest.fixture
def slow(monkeypatch):
    """Slows each step down, and lists the signatures that have run."""
    ran, run = [], LoadedVersion.run

    def wait(self, signature, *arguments, **options):
        ran.append(signature)
        time.sleep(0.3 if signature.endswith("_advance") else 0.0)
        return run(self, signature, *arguments, **options)

    monkeypatch.setattr(LoadedVersion, "run", wait)
    return ran


def post(server, verb, body, method="POST"):
    """Returns the status, the headers and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, f"/v1/models/toy:{verb}", json.dumps(body))
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def read_events(body):
    *events, rest = body.split(b"\n\n")
    assert rest == b"" and all(event.startswith(b"data: ") for event in events)
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("name", SIGNATURES)
def test_pieces_are_the_answer_of_predict_which_comes_last(server, name, steps):
    for key, answer in (("instances", "predictions"), ("inputs", "outputs")):
        request = {"signature_name": name, key: TEXTS}
        status, headers, body = post(server, "stream", {**request, "steps": steps})
        assert status == 200
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["transfer-encoding"] == "chunked"
        *events, last = read_events(body)
        expected = json.loads(post(server, "predict", request)[2])
        assert set(last) == {answer}
        assert json.dumps(last)[:40] == json.dumps(expected)[:40]
        pieces = ["".join(event["text"][row] for event in events) for row in range(len(TEXTS))]
        if answer == "predictions":
            texts = [row["text"] for row in expected[answer]]
        else:
            texts = expected[answer]["text"]
        best = texts if name == "greedy" else [row[0] for row in texts]
        assert pieces == best
        assert len(events) == 23 // steps + (23 % steps > 0) or name != "greedy" or steps > 1
        assert all(any(event["text"]) for event in events)


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_client_yields_pieces(server, name):
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "toy") as client:
        found = client.predict(name, text=["abc"])["text"][0]
        assert "".join(client.stream("abc", name)) == (found if name == "greedy" else found[0])
    with pytest.raises(ValueError, match="expects an open client of REST"):
        next(client.stream("abc"))
    with Client(f"grpc://127.0.0.1:{server.grpc_port}", "toy") as client:
        with pytest.raises(ValueError, match="expects an open client of REST"):
            next(client.stream("abc"))


def test_a_client_that_leaves_ends_its_search(server, slow):
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "toy", timeout=20) as client:
        pieces = client.stream("abc", "greedy")
        assert next(pieces)
        pieces.close()
        # One request runs at a time: this one has its turn once the stream has ended.
        assert client.predict("greedy", text=["abc"])["text"][0]
    assert slow.count("greedy_advance") < 10 and "greedy_finish" not in slow
    assert server.core.request_queue._num_admitted == 0


def test_a_client_that_closes_the_connection_before_any_event(server, slow):
    body = json.dumps({"signature_name": "serving_default", "instances": ["abc"]}).encode()
    head = b"POST /v1/models/toy:stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.rest_api_port)) as connection:
        connection.sendall(head % len(body) + body)
        while "serving_default_advance" not in slow:
            time.sleep(0.01)
    until = time.monotonic() + 10
    while server.core.request_queue._num_admitted and time.monotonic() < until:
        time.sleep(0.01)
    assert slow.count("serving_default_advance") < 10 and "serving_default_finish" not in slow


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServingError("INTERNAL", "the model failed"), "the model failed"),
        (RuntimeError("secret"), "The request failed; see the server's log."),
    ],
)
def test_an_error_in_the_middle_is_the_last_event(server, monkeypatch, error, told):
    run, ran = LoadedVersion.run, []

    def fail(self, signature, *arguments, **options):
        ran.append(signature)
        if ran.count("greedy_advance") == 3:
            raise error
        return run(self, signature, *arguments, **options)

    monkeypatch.setattr(LoadedVersion, "run", fail)
    status, _, body = post(server, "stream", {"signature_name": "greedy", "instances": ["abc"]})
    events = read_events(body)
    assert status == 200 and len(events) == 4 and events[-1] == {"error": told}
    ran.clear()
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "toy") as client:
        pieces = client.stream("abc", "greedy")
        with pytest.raises(ServingError, match="ABORTED: "):
            list(pieces)
    monkeypatch.undo()
    assert post(server, "predict", {"instances": ["abc"]})[0] == 200


def test_the_deadline_ends_a_stream(base, slow):
    with Server({"toy": base}, grpc_port=None, rest_api_port=0, timeout=4) as server:
        request = {"signature_name": "greedy", "instances": ["abc"]}
        status, _, body = post(server, "stream", request)
        assert status == 200 and "deadline" in read_events(body)[-1]["error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"instances": ["a"], "steps": 0}, "'steps' is expected to be a positive int"),
        ({"instances": ["a"], "steps": True}, "'steps' is expected to be a positive int"),
        ({"instances": ["a"], "steps": "2"}, "'steps' is expected to be a positive int"),
        ({"instances": ["a"], "signature_name": "score"}, 'Signature \\"score\\" of this version'),
        ({"instances": ["a"], "signature_name": "none"}, 'name: \\"none\\" not found'),
        ({"instances": [["a"]]}, "have shape"),
        ({"instances": [1]}, "not of expected type"),
        ({}, "Missing 'inputs' or 'instances' key"),
        ({"instances": ["a"] * 65}, "at most 64 texts"),
    ],
)
def test_bad_requests_have_a_status(server, body, told):
    status, _, answer = post(server, "stream", body)
    assert status == 400 and told.replace('\\"', '"') in json.loads(answer)["error"]


def test_other_models_and_methods(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/models/none:stream", '{"instances": ["a"]}')
        response = connection.getresponse()
        assert response.status == 404 and response.read()
        connection.request("GET", "/v1/models/toy:stream")
        assert connection.getresponse().status == 400


def test_a_version_without_streams_says_so(toy):
    status, _, body = post(toy.server, "stream", {"instances": ["abc"]})
    assert status == 400 and "SearchOptions(stream=True)" in json.loads(body)["error"]
