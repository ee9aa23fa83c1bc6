"""What comes before a body, over raw sockets: malformed, unfinished, too long, half closed."""

import json
import socket
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_attention.export.serving import Client, Server
from keras_attention.export.serving.http_protocol import MAX_HEAD_BYTES, BoundedProtocol

HEAD_SECONDS = 1.0
BODY = b'{"instances": ["a"]}'
LINE = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\n"
WHOLE = LINE + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
ANSWER = b'{"predictions": ["a!"]}'


@pytest.fixture(scope="module")
def server(tiny_base):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BoundedProtocol, "head_seconds", HEAD_SECONDS)
        with Server({"tiny": tiny_base}, grpc_port=None, rest_port=0, seconds=5.0) as server:
            yield server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.rest_port), 10)


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
    ],
)
def test_a_malformed_request_is_refused_and_closed(server, request_):
    answer = exchange(server, request_)
    assert status_of(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


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


def test_the_next_request_of_a_connection_has_the_same_time(server):
    with connect(server) as connection:
        connection.sendall(WHOLE)
        assert read_answer(connection) == 200
        time.sleep(1.5 * HEAD_SECONDS)  # idle: the time begins with the first byte
        connection.sendall(WHOLE)
        assert read_answer(connection) == 200
        connection.sendall(LINE)
        assert status_of(read_all(connection)) == 408


def test_a_request_may_take_longer_than_its_headers(server):
    with connect(server) as connection:
        connection.sendall(WHOLE[:-1])
        time.sleep(1.5 * HEAD_SECONDS)
        connection.sendall(WHOLE[-1:])
        assert read_answer(connection) == 200


def test_headers_that_are_too_long_are_refused(server):
    answer = exchange(server, LINE + b"X: 1\r\n" * (MAX_HEAD_BYTES // 6))
    assert status_of(answer) == 431 and b"Headers may have up to 65,536 bytes." in answer


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
    with Client(f"http://127.0.0.1:{server.rest_port}", "tiny", timeout=5) as client:
        assert client.predict(text=["a"])["text"].tolist() == ["a!"]
    for connection in held:
        connection.close()
