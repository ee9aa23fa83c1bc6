"""What keeps the development server alive: bounds on size, time and number, and no way around."""

import concurrent.futures
import http.client
import json
import socket
import threading
import time
import types
import weakref

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tiny_model import predict_request

from keras_attention.export.serving import (
    Client,
    Server,
    ServingError,
    _grpc_server,
    _json_requests,
    _rest_application,
)
from keras_attention.export.serving._bounded_request_queue import RequestQueue
from keras_attention.export.serving._json_requests import pause_garbage_collection
from keras_attention.export.serving._loaded_version import LoadedVersion
from keras_attention.export.serving._tensor_protos import encode_strings

NEVER = 2_000_000_000
LIMIT = 1 << 16


@pytest.fixture(scope="module")
def server(tiny_base):
    """One request runs, one waits; a REST request has one second."""
    options = {"grpc_port": 0, "rest_api_port": 0, "max_concurrency": 1, "max_queue": 1}
    with Server({"tiny": tiny_base}, **options, timeout=1.0, max_request_bytes=LIMIT) as server:
        yield server


@pytest.fixture(params=["grpc", "http"])
def client(request, server):
    port = server.grpc_port if request.param == "grpc" else server.rest_api_port
    with Client(f"{request.param}://127.0.0.1:{port}", "tiny", retries=0) as client:
        client.signatures()
        yield client


def exchange(server, request):
    """The status line of the answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", server.rest_api_port), 10) as connection:
        connection.sendall(request)
        return connection.recv(1 << 16).partition(b"\r\n")[0]


def test_a_request_that_is_too_long_is_refused(server, client):
    with pytest.raises(ServingError) as raised:
        client.predict(text=["a" * LIMIT])
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    assert client.predict(text=["a"])["text"].tolist() == ["a!"]


def test_a_body_that_hides_its_length_is_refused(server):
    chunk = b"%x\r\n%s\r\n" % (LIMIT // 2, b" " * (LIMIT // 2))
    head = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"413" in exchange(server, head + 3 * chunk)


def test_a_body_that_never_comes_is_given_up(server):
    head = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    assert b"408" in exchange(server, head + b"{")


def test_a_string_that_nothing_ends_keeps_nobody_waiting(tiny_base):
    body = b'{"instances": ["Inf' + b'\\"' * 40_000
    with Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=0) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            hostile = [threads.submit(post, server, body) for _ in range(8)]
            slowest = 0.0
            while not all(future.done() for future in hostile) or not slowest:
                begun = time.monotonic()
                assert post(server, b'{"instances": ["a"]}')[0] == 200
                slowest = max(slowest, time.monotonic() - begun)
        assert {future.result()[0] for future in hostile} == {400}
        assert slowest < 2  # 14 seconds, where one expression holds the interpreter


def test_large_bodies_are_read_one_at_a_time_and_in_time(tiny_base, monkeypatch):
    """Small requests pass them; one that waits too long is given up."""
    body = json.dumps({"instances": ["a"], "more": "a" * (1 << 20)}).encode()
    parse, entered, leave, trims = _json_requests.parse, [], threading.Event(), []

    def wait_and_parse(body, deadline):
        if len(body) > 1 << 20:
            entered.append(body)
            leave.wait(10)
        return parse(body, deadline)

    monkeypatch.setattr(_json_requests, "parse", wait_and_parse)
    monkeypatch.setattr(_rest_application, "schedule_trim", lambda: trims.append(1))
    with Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=0, timeout=1.0) as server:
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            large = [threads.submit(post, server, body) for _ in range(2)]
            assert post(server, b'{"instances": ["a"]}')[0] == 200
            done, _ = concurrent.futures.wait(large, 8, concurrent.futures.FIRST_COMPLETED)
            assert [future.result()[0] for future in done] == [504] and len(entered) == 1
            leave.set()
            concurrent.futures.wait(large)
        assert len(entered) == 1 and len(trims) == 2
        assert post(server, body)[0] == 200


def test_a_body_of_very_many_rows_is_refused_before_they_are_read(tiny_base):
    body = b'{"signature_name":"several","inputs":{"x":[' + b"[1]," * 250_000 + b'[1]],"n":[1]}}'
    with Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=0) as server:
        begun = time.process_time()
        status, answer = post(server, body)
        assert time.process_time() - begun < 0.7
        assert status == 400 and b"input x has 250001 examples, more than 4096" in answer


def test_a_refused_body_is_freed_without_the_garbage_collector(tiny_base, monkeypatch):
    """Its millions of values would stay until the collector looks at the oldest objects."""

    class Document(dict):
        pass

    parse, documents = _json_requests.parse, []

    def parse_and_watch(body, deadline):
        document = Document(parse(body, deadline))
        documents.append(weakref.ref(document))
        return document

    monkeypatch.setattr(_json_requests, "parse", parse_and_watch)
    with Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=0) as server:
        with pause_garbage_collection():
            assert post(server, b'{"instances": [7]}')[0] == 400
            assert post(server, b'{"instances": ["a"]}')[0] == 200
            until = time.monotonic() + 2
            while any(document() for document in documents) and time.monotonic() < until:
                time.sleep(0.01)
            assert [document() for document in documents] == [None, None]


def post(server, body, path="/v1/models/tiny:predict"):
    """The status of an answer, and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=60)
    connection.request("POST", path, body)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def test_what_is_no_http_is_refused(server):
    assert b"400" in exchange(server, b"\x16\x03\x01\x00\xff" * 20 + b"\r\n\r\n")


@pytest.mark.thorough
def test_a_full_queue_refuses_and_recovers(client):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        codes = [future.result() for future in [threads.submit(_code, client) for _ in range(6)]]
    full = "UNAVAILABLE"
    assert codes.count("DEADLINE_EXCEEDED") >= 1
    assert codes.count(full) >= 3
    assert set(codes) <= {"DEADLINE_EXCEEDED", full}
    until = time.monotonic() + 10
    while _code(client, n=[1]) == full and time.monotonic() < until:
        time.sleep(0.01)  # gRPC gives up on its side a little before the server does
    assert client.predict(text=["a"])["text"].tolist() == ["a!"]


@pytest.mark.thorough
def test_a_request_to_a_full_queue_is_repeated_until_it_is_answered(client):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        held = [threads.submit(_code, client) for _ in range(6)]
        time.sleep(0.3)
        with Client(client.url, "tiny", retries=20, backoff=0.1, timeout=20) as patient:
            assert patient.predict(text=["a"])["text"].tolist() == ["a!"]
        assert all(future.result() for future in held)


def _code(client, n=(NEVER,)):
    """What a request that counts to `n` fails with, asked over a connection of its own."""
    with Client(client.url, "tiny", retries=0, timeout=1.5) as own:
        try:
            own.predict("slow", n=n)
        except ServingError as error:
            return error.code


def test_a_deadline_that_passed_in_the_queue_is_named_so(tiny_base):
    loaded = LoadedVersion(tiny_base / "3")
    with pytest.raises(ServingError) as raised:
        loaded.run("slow", {"n": np.array([1], "int32")}, deadline=time.monotonic() - 1)
    assert raised.value.code == "DEADLINE_EXCEEDED"
    loaded.close()


def test_states_are_told_while_all_are_busy(server):
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "tiny", timeout=1.0) as client:
        busy = threading.Thread(target=_code, args=(client,))
        busy.start()
        time.sleep(0.2)
        assert client.status() == {3: "AVAILABLE"}
        busy.join()


def test_a_request_of_very_many_rows_is_refused(server):
    def ask(rows):
        inputs = {"text": np.array([b"a"] * rows, object)}
        return server.core.predict("tiny", None, None, "", inputs)[1]["text"]

    assert len(ask(4096)) == 4096
    with pytest.raises(ServingError, match="input text has 4097 examples, more than 4096"):
        ask(4097)


def test_a_failure_of_tensorflow_tells_no_folders(server, monkeypatch, caplog):
    """A client learns what failed; the log says where."""
    _, loaded = server.core.models["tiny"].acquire().__enter__()
    text = (
        "Graph execution error:\n\nDetected at node node defined at (most recent call last):\n"
        '  File "/srv/some body/x.py", line 3\n'
        f"{{{{function_node __inference_7}}}} {loaded.path}/assets/v.txt; /opt/models/a b; No such "
        "file at /job:localhost/replica:0\n\nOriginal stack trace for 'node':\n  File /srv/x.py"
    )

    def broken(*arguments, **named):
        raise tf.errors.NotFoundError(None, None, text)

    monkeypatch.setattr(loaded._session, "run", broken)
    with pytest.raises(ServingError) as raised:
        server.core.predict("tiny", None, None, "", {"text": np.array([b"a"], object)})
    assert raised.value.message == ("assets/v.txt; a b; No such file at /job:localhost/replica:0")
    assert raised.value.code == "NOT_FOUND" and str(loaded.path) in caplog.text


def test_the_initialization_is_no_signature(server, client):
    with pytest.raises(ServingError):
        client.predict("__saved_model_init_op")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/..%2F..%2Fetc%2Fpasswd:predict",
        "/v1/models/%00:predict",
        "/v1/models/tiny/versions/-1:predict",
        "/v1/models/tiny/labels/%ff:predict",
        "/v1/models/tiny/../tiny:predict",
    ],
)
def test_no_path_leads_out_of_the_table(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=10)
    connection.request("POST", path, b'{"instances": ["a"]}')
    response = connection.getresponse()
    assert response.status in (400, 404)
    assert json.loads(response.read())["error"]
    connection.close()


def test_the_servers_own_mistakes_tell_no_details(server, client, monkeypatch, caplog):
    def broken(*arguments, **named):
        raise RuntimeError("a secret path")

    monkeypatch.setattr(server.core, "run", broken)
    with pytest.raises(ServingError) as raised:
        client.predict(text=["a"])
    assert raised.value.code in ("INTERNAL", "UNKNOWN")
    assert "secret" not in raised.value.message
    assert "a secret path" in caplog.text


def test_many_clients_get_their_own_answers(tiny_base):
    with Server({"tiny": tiny_base}, grpc_port=0, rest_api_port=0) as server:
        urls = f"grpc://127.0.0.1:{server.grpc_port}", f"http://127.0.0.1:{server.rest_api_port}"
        clients = [Client(url, "tiny") for url in urls]

        def ask(index):
            texts = [f"{index} {row}" for row in range(index % 3 + 1)]
            found = clients[index % 2].predict(text=texts)["text"].tolist()
            return found == [f"{text}!" for text in texts]

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            assert all(threads.map(ask, range(200)))
        for client in clients:
            client.close()


def test_a_taken_port_is_an_error(server, tiny_base):
    with pytest.raises(OSError, match="REST cannot listen"):
        Server({"tiny": tiny_base}, grpc_port=None, rest_api_port=server.rest_api_port).start()
    with pytest.raises(OSError, match="gRPC cannot listen"):
        Server({"tiny": tiny_base}, grpc_port=server.grpc_port, rest_api_port=None).start()


def test_admission_counts_whoever_waits():
    request_queue = RequestQueue(max_concurrency=1, max_queue=1)
    with request_queue.acquire_slot():
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
            with request_queue.acquire_slot(time.monotonic() + 0.05):
                pass
    with request_queue.acquire_slot(time.monotonic() + 1):
        pass
    for max_concurrency, max_queue in ((0, 1), (1, -1), (1.5, 1)):
        with pytest.raises(ValueError, match="RequestQueue expects"):
            RequestQueue(max_concurrency, max_queue)


def test_a_closed_queue_refuses_whoever_waits():
    request_queue = RequestQueue(max_concurrency=1, max_queue=2)

    def wait():
        with request_queue.acquire_slot():
            return None

    with concurrent.futures.ThreadPoolExecutor(2) as threads, request_queue.acquire_slot():
        waiting = [threads.submit(wait) for _ in range(2)]
        request_queue.close()
        errors = [future.exception(timeout=10) for future in waiting]
    assert [error.code for error in errors] == ["UNAVAILABLE"] * 2
    with pytest.raises(ServingError, match="UNAVAILABLE: The server is ending"):
        wait()


def test_a_server_ends_although_cancelled_requests_wait(tiny_base):
    server = Server({"tiny": tiny_base}, grpc_port=0, rest_api_port=None, max_concurrency=1)
    request_queue = server.start().core.request_queue
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with request_queue.acquire_slot():
            request = predict_request("", {"text": encode_strings(["a"])})
            answer = stub.Predict.future(request, timeout=60)
            until = time.monotonic() + 10
            while request_queue._num_admitted < 2 and time.monotonic() < until:
                time.sleep(0.01)
            answer.cancel()
            stop = threading.Thread(target=server.stop)
            stop.start()
            stop.join(timeout=8)
            has_ended = not stop.is_alive()
        stop.join()
    assert has_ended


def test_a_request_that_nobody_awaits_is_not_run(server, monkeypatch):
    def abort(code, details):
        raise ServingError(code.name, details)

    monkeypatch.setattr(LoadedVersion, "run", lambda *arguments: pytest.fail("it ran"))
    request = predict_request("", {"text": encode_strings(["a"])})
    context = types.SimpleNamespace(
        time_remaining=lambda: 9.0, is_active=lambda: False, abort=abort
    )
    with pytest.raises(ServingError, match="CANCELLED: The client went away"):
        _grpc_server.PredictionServicer(server.core).Predict(request, context)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.2])
def test_a_deadline_ends_the_computation_or_keeps_it_from_starting(server, seconds):
    inputs = {"n": np.array([1_000_000], "int32")}  # seconds, were it not ended
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
        server.core.predict("tiny", None, None, "slow", inputs, timeout=seconds)
