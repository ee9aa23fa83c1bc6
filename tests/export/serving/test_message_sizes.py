"""The longest request and answer of a client, over both protocols and on the command line."""

import http.server
import threading

import pytest
from json_handler import JSONHandler

from keras_attention.export import client as command
from keras_attention.export.serving import Client, ServingError


def test_a_request_and_an_answer_that_are_too_long_are_refused(url):
    with Client(url, "tiny", max_message_bytes=10_000, backoff=60) as client:
        client.signatures()
        with pytest.raises(ServingError, match=r"Sent message larger than max \(\d+ vs. 10000\)"):
            client.predict(text=["a" * 10_000])
        # The request fits just so, the answer to each of its rows is a letter longer.
        with pytest.raises(ServingError, match="Received message larger than max") as raised:
            client.predict(text=["a"] * (1_980 if url.startswith("http") else 3_000))
        assert raised.value.code == "RESOURCE_EXHAUSTED"
        assert client.predict(text=["a"])["text"].tolist() == ["a!"]


class Refusing(JSONHandler):
    """Refuses a request and closes the connection without reading its body."""

    def do_GET(self):
        signature = {"inputs": {"text": {"dtype": "DT_STRING"}}, "outputs": {}}
        found = {"signature_def": {"serving_default": signature}}
        self.respond(200, {"metadata": {"signature_def": found}})

    def do_POST(self):
        self.server.num_posts += 1
        self.respond(413, {"error": "too long"})
        self.close_connection = True


def test_a_refusal_in_the_middle_of_a_body_is_read():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.num_posts = 0
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", backoff=0.01, retries=3) as client:
            with pytest.raises(ServingError, match="RESOURCE_EXHAUSTED: too long"):
                client.predict(text=["a" * 2**25])
        assert server.num_posts == 1
        server.shutdown()


class Endless(http.server.BaseHTTPRequestHandler):
    """Hides how long its answer is, and never ends it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"400\r\n" + b" " * 1024 + b"\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments):
        pass


def test_an_answer_that_hides_its_length_is_not_read_for_ever():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with (
            Client(url, max_message_bytes=10_000) as client,
            pytest.raises(ServingError, match="RESOURCE_EXHAUSTED: Received message larger"),
        ):
            client.status()
        server.shutdown()


@pytest.mark.parametrize("size", [-5, 0, 2**31, 1.5, "x", True, None])
def test_the_size_must_be_a_positive_int(size):
    with pytest.raises(ValueError, match="`max_message_bytes` to be an int of 1 to 2147483647"):
        Client("http://localhost:8501", max_message_bytes=size)


def test_the_command_limits_messages(endpoint, capsys):
    url = f"http://127.0.0.1:{endpoint.rest_api_port}"
    line = ["--url", url, "--model", "tiny", "--max-message-mib", "0.01", "a" * 20_000]
    assert command.main(line) == 1
    assert "RESOURCE_EXHAUSTED: Sent message larger than max" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([*line[:-2], "-5", "a"])
    assert "expected a number above 0 and at most 1024, got '-5'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([*line[:-2], "1e-9", "a"])
    assert "Received: max_message_bytes=0" in capsys.readouterr().err
