"""What comes before a body, over raw sockets: malformed, unfinished, too long, half closed."""

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_attention.export.serving import Client, Server
from keras_attention.export.serving._bounded_uvicorn_protocol import MAX_HEAD_BYTES, BoundedProtocol

HEAD_SECONDS = 1.0
SECONDS = 3.0
BODY = b'{"instances": ["a"]}'
LINE = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\n"
WHOLE = LINE + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
ANSWER = b'{"predictions": ["a!"]}'


@pytest.fixture(scope="module")
def server(tiny_base):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BoundedProtocol, "head_seconds", HEAD_SECONDS)
        options = {"grpc_port": None, "rest_api_port": 0, "timeout": SECONDS}
        with Server({"tiny": tiny_base}, **options) as server:
            yield server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.rest_api_port), 10)


def read_all(connection):
    """What arrives until the server closes."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def read_answer(connection):
    """The status of an answer of `ANSWER` that leaves the connection open."""
    found = b""
    while not found.endswith(ANSWER):
        part = connection.recv(1 << 16)
        assert part, found
        found += part
    return status_of(found)


def exchange(server, request):
    with connect(server) as connection:
        connection.sendall(request)
        return read_all(connection)


def status_of(answer):
    return int(answer.split()[1])


CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "request_",
    [
        LINE + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(BODY) + CHUNKED,
        LINE + b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % len(BODY) + CHUNKED,
        LINE + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
        LINE + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
        WHOLE.replace(b"\r\n", b"\n"),
        LINE.replace(b"x\r\n", b"x\n") + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
        LINE + b"Content-Length: -1\r\n\r\n" + BODY,
        LINE + b"Content-Length: +20\r\n\r\n" + BODY,
        LINE + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + BODY,
        LINE + b"Content-Length : 20\r\n\r\n" + BODY,
        LINE + b" folded: line\r\n\r\n",
        LINE + b"Na\x00me: 1\r\n\r\n",
        b"GET /v1/models/t\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xff" * 20 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/models/tiny HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET /v1/models/tiny HTTP/0.9\r\nHost: x\r\n\r\n",
        b"GET /v1/models/tiny\r\n\r\n",
        b"GET /v1/models/tiny HTTP/1.1\r\n\r\n",
        b"GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused_and_closed(server, request_):
    answer = exchange(server, request_)
    assert status_of(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize(
    "request_",
    [
        LINE + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKED,
        LINE + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n" + WHOLE,
    ],
)
def test_what_is_not_implemented_is_refused_once(server, request_):
    answer = exchange(server, request_)
    assert status_of(answer) == 501 and answer.count(b"HTTP/1.1 ") == 1


def test_an_old_client_needs_no_host(server):
    answer = exchange(server, b"GET /v1/models/tiny HTTP/1.0\r\n\r\n")
    assert status_of(answer) == 200


LINES = [b"POST /v1/models/tiny:predict HTTP/1.1", b"GET /v1/models/%zz HTTP/1.0", b"Host: x"]
LINES += [b"Content-Length: 20", b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"", BODY]
LINES += [b"Connection: upgrade", b"Upgrade: h2c", b"Connection: close", b"5", b"0", b"\xff\x00"]


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from([b"\r\n", b"\n"])), max_size=9))
def test_any_bytes_are_answered_or_closed(server, caplog, lines):
    """The client closes its half: nothing else would ever come, and nobody waits for it."""
    with connect(server) as connection:
        connection.sendall(b"".join(part for line in lines for part in line))
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert not answer or status_of(answer) in (100, 200, 400, 404), answer
    assert "Exception in ASGI" not in caplog.text and "request failed" not in caplog.text


def test_headers_that_do_not_end_time_out(server):
    with connect(server) as connection:
        connection.sendall(LINE)
        begun, stopped = time.monotonic(), threading.Event()

        def trickle():
            while not stopped.wait(0.1):
                try:
                    connection.sendall(b"X: 1\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        answer = read_all(connection)
        took = time.monotonic() - begun
        stopped.set()
        thread.join()
    assert status_of(answer) == 408 and b"headers did not arrive in time" in answer
    assert 0.5 * HEAD_SECONDS < took < 5 * HEAD_SECONDS


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"G"])
def test_a_connection_that_asks_nothing_is_closed(server, sent):
    with connect(server) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        read_all(connection)
        assert time.monotonic() - begun < 5 * HEAD_SECONDS


@pytest.mark.thorough
def test_the_next_request_of_a_connection_has_the_same_time(server):
    with connect(server) as connection:
        connection.sendall(WHOLE)
        assert read_answer(connection) == 200
        time.sleep(1.5 * HEAD_SECONDS)  # idle: the time begins with the first byte
        connection.sendall(WHOLE)
        assert read_answer(connection) == 200
        connection.sendall(LINE)
        assert status_of(read_all(connection)) == 408


@pytest.mark.thorough
def test_a_request_may_take_longer_than_its_headers(server):
    with connect(server) as connection:
        connection.sendall(WHOLE[:-1])
        time.sleep(1.5 * HEAD_SECONDS)
        connection.sendall(WHOLE[-1:])
        assert read_answer(connection) == 200


def test_headers_that_are_too_long_are_refused(server):
    answer = exchange(server, LINE + b"X: 1\r\n" * (MAX_HEAD_BYTES // 6))
    assert status_of(answer) == 431 and b"Headers may have up to 65,536 bytes." in answer


@pytest.mark.parametrize(
    "headers",
    [
        b"X: " + b"a" * 70_000 + b"\r\n",
        b"".join(b"X%d: a\r\n" % number for number in range(10_000)),
    ],
)
def test_headers_that_come_at_once_have_the_same_bound(server, headers):
    answer = exchange(server, WHOLE.replace(b"Host", headers + b"Host"))
    assert status_of(answer) == 431 and answer.count(b"HTTP/1.1 ") == 1
    assert b"Headers may have up to 65,536 bytes." in answer


def send_without_end(connection, block, most):
    """Sends the same bytes until the server closes; returns how many went out."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            connection.sendall(block)
            sent += len(block)
    return sent


@pytest.mark.parametrize("block", [b"X: a\r\n" * 10_000, b"X" * 60_000])
def test_trailers_without_end_are_refused(server, block):
    start = LINE + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED[:-2]
    with connect(server) as connection:
        connection.sendall(start)
        assert send_without_end(connection, block, 2**28) < 2**27
    with connect(server) as connection:
        connection.sendall(start + block * 9)
        assert status_of(read_all(connection)) == 431


def test_few_trailers_are_ignored(server):
    with connect(server) as connection:
        for _ in range(2):
            trailers = CHUNKED[:-2] + b"X: a\r\nExpires: 9\r\n\r\n"
            connection.sendall(LINE + b"Transfer-Encoding: chunked\r\n\r\n" + trailers)
            assert read_answer(connection) == 200


def test_chunks_with_more_around_them_than_a_request_may_have_are_refused(tiny_base):
    base = {"tiny": tiny_base}
    start = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
    options = {"grpc_port": None, "rest_api_port": 0, "max_request_bytes": 1000}
    with Server(base, **options) as server:
        chunk = b"1;" + b"x" * 50_000 + b"\r\n \r\n"
        answer = exchange(server, start + chunk * 20)
    assert status_of(answer) == 413 and answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "path, status", [("/v1/foo", 400), ("/v1/models/tiny:classify", 501), ("/none", 404)]
)
def test_a_body_that_nobody_reads_gets_one_answer_and_its_end(server, path, status):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode()
    answer = exchange(server, head + b"a" * 1_000_000)
    assert status_of(answer) == status and answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.partition(b"\r\n\r\n")[0].lower()
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=10)
    ) as client:
        for _ in range(3):
            client.request("POST", path, b"a" * 1_000_000)
            response = client.getresponse()
            assert response.status == status and response.read()
        client.request("POST", "/v1/models/tiny:predict", BODY)
        assert client.getresponse().read() == ANSWER


@pytest.mark.thorough
def test_a_body_that_comes_slowly_and_is_not_read_gets_one_answer(server):
    with connect(server) as connection:
        connection.sendall(b"POST /v1/foo HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
        for _ in range(15):
            time.sleep(HEAD_SECONDS / 10)
            connection.sendall(b"a" * 600)
        answer = read_all(connection)
    assert status_of(answer) == 400 and answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("size", [17_000_000, 20_000_000])
def test_a_client_that_sends_too_much_reads_why(server, size):
    """A client that sends all of its request before it reads."""
    for _ in range(3):
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=10)
        ) as client:
            client.request("POST", "/v1/models/tiny:predict", bytes(size))
            response = client.getresponse()
            assert response.status == 413 and b"may have up to 16,777,216" in response.read()


OFFERS = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
]


@pytest.mark.parametrize("offer", OFFERS)
def test_an_offer_of_another_protocol_is_ignored(server, offer):
    offered = WHOLE.replace(b"Host", offer + b"Host")
    chunked = LINE + offer + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED
    status = b"GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\n"
    for request in (offered, chunked, WHOLE):  # on one connection, and whole or byte by byte
        with connect(server) as connection:
            connection.sendall(request)
            assert read_answer(connection) == 200
            for number in range(len(offered)):
                connection.sendall(offered[number : number + 1])
            assert read_answer(connection) == 200
    with connect(server) as connection:  # all at once
        connection.sendall(offered + chunked + status + offered * 2 + WHOLE)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert answer.count(ANSWER) == 5 and answer.count(b"AVAILABLE") == 1
    closing = offered.replace(b"Connection: ", b"Connection: close, ")
    assert exchange(server, closing).endswith(ANSWER)


@pytest.mark.thorough
def test_a_body_that_nobody_reads_does_not_hold_a_connection(server):
    with connect(server) as connection:
        connection.sendall(b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        begun = time.monotonic()
        assert status_of(connection.recv(1 << 16)) == 404
        try:
            while time.monotonic() - begun < 10 * HEAD_SECONDS:
                connection.sendall(b"a")
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - begun < 5 * HEAD_SECONDS


def test_a_client_that_closes_its_half_gets_its_answer(server):
    with connect(server) as connection:
        connection.sendall(WHOLE)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert status_of(answer) == 200 and answer.endswith(ANSWER)
    with connect(server) as connection:  # two requests at once
        connection.sendall(WHOLE * 2)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).count(ANSWER) == 2
    with connect(server) as connection:  # half a request
        connection.sendall(WHOLE[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b""


def test_many_unfinished_connections_keep_nobody_waiting(server):
    held = [connect(server) for _ in range(100)]
    for connection in held:
        connection.sendall(LINE)
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "tiny", timeout=5) as client:
        assert client.predict(text=["a"])["text"].tolist() == ["a!"]
    for connection in held:
        connection.close()
