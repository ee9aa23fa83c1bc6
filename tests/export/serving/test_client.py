"""The client: what it repeats, how long it tries, and what it makes of inputs and outputs."""

import contextlib
import http.server
import threading
import time
import types

import numpy as np
import pytest
from json_handler import JSONHandler

from keras_attention.export import client as command
from keras_attention.export._terminal_table import format_table
from keras_attention.export.serving import Client, ServingError
from keras_attention.export.serving import client as client_module
from keras_attention.export.serving._rest_client import RestClient


@pytest.fixture
def client(url):
    with Client(url, "tiny") as client:
        yield client


def test_strings_are_text_there_and_back(client):
    texts = ["ä\0", "", "👩‍🚀", "\u202eabc"]
    assert client.predict(text=texts)["text"].tolist() == [f"{text}!" for text in texts]
    assert client.predict(text=[b"a", "b"])["text"].tolist() == ["a!", "b!"]


def test_bytes_are_bytes_where_the_name_says_so(client):
    found = client.predict("bytes", text=[b"\xff\0", "ä"])
    assert found["raw_bytes"].tolist() == [b"\xff\0", "ä".encode()]
    assert found["length"].tolist() == [2, 2]


def test_lists_are_cast_to_what_the_signature_takes(client):
    found = client.predict("several", x=[[1, 2, 3], [4, 5, 6]], n=[7, 11])
    assert found["double"].dtype == np.float32 and found["double"].shape == (2, 3)
    assert found["sum"].tolist() == [13.0, 26.0]
    with pytest.raises(ValueError, match="expected to hold int32"):
        client.predict("several", x=[[1]], n=[2**40])
    for inexact in (6.5, float("nan")):
        with pytest.raises(ValueError, match="expected to hold int32"):
            client.predict("several", x=[[1]], n=[inexact])
    assert client.predict("several", x=[[1]], n=[2.0])["sum"].tolist() == [3.0]
    with pytest.raises(ValueError, match="expected to hold str or bytes"):
        client.predict(text=[1.5])
    with pytest.raises(ValueError, match="without halves of surrogate pairs"):
        client.predict(text=["a\udc80"])


@pytest.mark.parametrize("n", [[2**64], [10**9, None]])
def test_what_numpy_keeps_as_objects_is_no_number(client, n):
    with pytest.raises(ValueError, match="expected to hold int32"):
        client.predict("several", x=[[1]] * len(n), n=n)
    with pytest.raises(ValueError, match="expected to hold numbers or strings"):
        client.predict("several", other=n)


def test_an_output_filter_leaves_the_others_out(client):
    found = client.predict("several", x=[[1.0]], n=[2], output_filter=["sum"])
    assert {name: array.tolist() for name, array in found.items()} == {"sum": [3.0]}
    with pytest.raises(ServingError, match="output tensor alias not found in signature: none"):
        client.predict("several", x=[[1.0]], n=[2], output_filter=["none"])


def test_an_input_that_the_signature_does_not_have_is_refused(client):
    with pytest.raises(ServingError, match="INVALID_ARGUMENT.*Sent extra: {other}"):
        client.predict(text=["a"], other=["b"])


def test_an_output_filter_is_no_string(client):
    with pytest.raises(ValueError, match="`output_filter` to be a list of names"):
        client.predict("several", x=[[1.0]], n=[2], output_filter="sum")


def test_a_closed_client_says_that_it_is(url):
    client = Client(url, "tiny")
    client.close()
    with pytest.raises(ValueError, match="is closed"):
        client.predict(text=["a"])


def test_no_rows_and_no_texts_are_answers_too(client):
    assert client.predict(text=[])["text"].shape == (0,)
    assert client.translate([]) == []


def test_signatures_and_states_are_told(client):
    assert {"several", "serving_default"} <= set(client.signatures())
    assert client.status() == {3: "AVAILABLE"}


@pytest.mark.parametrize("which", [{"version": 3}, {}])
def test_a_version_may_be_chosen(url, which):
    with Client(url, "tiny", **which) as client:
        assert client.predict(text=["a"])["text"].tolist() == ["a!"]


def test_errors_carry_their_code(url, client):
    with Client(url, "none", retries=0) as other:
        with pytest.raises(ServingError) as raised:
            other.predict(text=["a"])
    assert raised.value.code == "NOT_FOUND"
    with pytest.raises(ServingError, match='no signature "none". There are: .*several'):
        client.predict("none", text=["a"])
    with pytest.raises(ServingError, match="INVALID_ARGUMENT"):
        client.predict(text=[["a"]])
    with Client(url, "tiny", label="stable") as other:
        with pytest.raises(ServingError, match="Unrecognized servable version label: stable"):
            other.predict(text=["a"])


def test_the_timeout_ends_a_call(url):
    with Client(url, "tiny", timeout=0.4) as client:
        client.signatures()
        started = time.monotonic()
        with pytest.raises(ServingError) as raised:
            client.predict("slow", n=[300_000])  # over REST the server goes on by itself
    assert raised.value.code == "DEADLINE_EXCEEDED"
    assert time.monotonic() - started < 3


def test_one_timeout_ends_a_call_that_asks_for_metadata_between(monkeypatch):
    client = Client("http://127.0.0.1:9", "tiny", timeout=0.6)
    given = []

    def predict(client, signature, arrays, output_filter, definition, seconds):
        given.append(seconds)
        time.sleep(0.2)
        raise ServingError("INVALID_ARGUMENT", "another version")

    def signatures(client, seconds):
        given.append(seconds)
        time.sleep(0.2)
        return {"serving_default": f"definition {len(given)}"}

    monkeypatch.setattr(client._transport, "predict", predict)
    monkeypatch.setattr(client._transport, "signatures", signatures)
    with pytest.raises(ServingError, match="another version"):
        client.predict()
    assert len(given) == 4  # the metadata, the call, and both again
    assert all(seconds < 0.6 - 0.2 * n + 0.01 for n, seconds in enumerate(given))


class _Trickling(http.server.BaseHTTPRequestHandler):
    """Sends its answer a byte at a time, each well within any limit of a read."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "50")
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(50):
                self.wfile.write(b" ")
                time.sleep(0.1)

    def log_message(self, *args):
        pass


def test_the_timeout_ends_an_answer_that_trickles_in():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Trickling) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", "tiny", timeout=0.5) as client:
            started = time.monotonic()
            with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
                client.status()
            assert time.monotonic() - started < 3
        server.shutdown()


class _CutOff(http.server.BaseHTTPRequestHandler):
    """Announces more than it sends."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "50")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


def test_an_answer_that_is_cut_off_is_not_taken_for_one():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _CutOff) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with (
            Client(f"http://127.0.0.1:{server.server_port}", "tiny", retries=0) as client,
            pytest.raises(ServingError, match="UNAVAILABLE"),
        ):
            client.status()
        server.shutdown()


class _Stranger(http.server.BaseHTTPRequestHandler):
    """A web application that knows no models and answers with what `server.body` is."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b'{"metadata": 3}', b"\xff", b"3"])
def test_who_is_no_model_server_is_told_as_such(body, capsys):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        server.body = body
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with Client(url, "tiny", retries=0) as client:
            for call in (client.status, client.signatures, lambda: client.translate(["a"])):
                with pytest.raises(ServingError, match="INTERNAL.* does not respond as a model"):
                    call()
        assert command.main(["--url", url, "a"]) == 1
        assert "does not respond as a model server" in capsys.readouterr().err
        server.shutdown()


def test_messages_of_more_than_four_mebibytes_pass(url):
    with Client(url, "tiny") as client:
        text = "a" * (5 * 2**20)
        assert client.predict(text=[text])["text"].tolist() == [text + "!"]


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_nobody_there_is_unavailable_and_tried_again(scheme, monkeypatch):
    pauses = []
    time_ = types.SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append)
    monkeypatch.setattr(client_module, "time", time_)
    with Client(f"{scheme}://127.0.0.1:1", "tiny", retries=3, backoff=0.01) as client:
        with pytest.raises(ServingError) as raised:
            client.status()
    assert raised.value.code == "UNAVAILABLE"
    assert len(pauses) == 3
    for attempt, pause in enumerate(pauses):
        assert 0.5 <= pause / (0.01 * 2**attempt) <= 1.5


def test_without_a_number_of_retries_the_deadline_ends_them(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)

    def sleep(pause):
        assert pause <= 1.5 * client_module.MAX_PAUSE_SECONDS
        clock.now += pause

    time_ = types.SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr(client_module, "time", time_)
    with Client("http://127.0.0.1:1", "tiny", timeout=100, retries=None) as client:
        with pytest.raises(ServingError, match="UNAVAILABLE"):
            client.status()
    assert 100 - 1.5 * client_module.MAX_PAUSE_SECONDS <= clock.now < 100


class Sequence(JSONHandler):
    """Answers with the statuses of `server.statuses`, one after the other."""

    def do_GET(self):
        status = self.server.statuses.pop(0)
        entry = {"version": "1", "state": "AVAILABLE"}
        self.respond(
            status, {"model_version_status": [entry]} if status == 200 else {"error": "busy"}
        )


@pytest.mark.parametrize(
    "statuses, code, left",
    [
        ([503, 503, 200], None, 0),
        ([503, 503, 503, 200], "UNAVAILABLE", 1),
        ([429, 200], "RESOURCE_EXHAUSTED", 1),
        ([400, 200], "INVALID_ARGUMENT", 1),
        ([500, 200], "UNKNOWN", 1),
        ([504, 200], "DEADLINE_EXCEEDED", 1),
    ],
)
def test_only_503_is_repeated(statuses, code, left):
    server = http.server.HTTPServer(("127.0.0.1", 0), Sequence)
    server.statuses = list(statuses)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with Client(url, "tiny", retries=2, backoff=0.001) as client:
            if code is None:
                assert client.status() == {1: "AVAILABLE"}
            else:
                with pytest.raises(ServingError) as raised:
                    client.status()
                assert raised.value.code == code
        assert len(server.statuses) == left
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Counting(Sequence):
    """Counts the connections that are open in `server.num_open`."""

    def setup(self):
        super().setup()
        self.server.num_open += 1

    def finish(self):
        self.server.num_open -= 1
        super().finish()


def test_threads_that_end_close_their_connections():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Counting) as server:
        server.statuses, server.num_open = [200] * 21, 0
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}", "tiny") as client:
            client.status()
            for _ in range(20):
                thread = threading.Thread(target=client.status)
                thread.start()
                thread.join()
            until = time.monotonic() + 10
            while server.num_open > 1 and time.monotonic() < until:
                time.sleep(0.01)
            assert server.num_open == 1  # of this thread
        server.shutdown()


class Reloaded(RestClient):
    """A server whose signature changes: `outputs` holds the values that it answers with now."""

    misleads = False

    def __init__(self, **outputs):
        super().__init__("localhost:1", 2**20)
        self.outputs, self.asked = outputs, []

    def _call(self, method, path, seconds, body=None):
        self.asked.append(method)
        if method == "GET":
            kinds = {float: "DT_FLOAT", int: "DT_INT32", str: "DT_STRING"}
            outputs = {name: {"dtype": kinds[type(v[0])]} for name, v in self.outputs.items()}
            signature = {"inputs": {"x": {"dtype": "DT_FLOAT"}}, "outputs": outputs}
            found = {"signature_def": {"serving_default": signature}}
            return {"metadata": {"signature_def": found}}
        if self.misleads:
            return {"outputs": {"none": [1]}}
        (first, *more) = self.outputs.values()
        return {"outputs": self.outputs if more else first}


@pytest.mark.parametrize(
    "before, after",
    [
        ({"y": [1.5]}, {"y": [1.5], "z": [2]}),
        ({"y": [1.5], "z": [2]}, {"y": [1.5]}),
        ({"y": [1.5], "z": [2]}, {"y": [1.5], "z": [2], "text": ["a"]}),
        ({"y": [1]}, {"y": [1.5]}),
        ({"y": [1.5]}, {"y": ["a"]}),
        ({"y": ["a"]}, {"y": [1.5]}),
    ],
)
def test_a_version_with_other_outputs_is_met_on_the_way(before, after):
    client = Client("http://localhost:1")
    client._transport = server = Reloaded(**before)
    assert {name: array.tolist() for name, array in client.predict(x=[1]).items()} == before
    server.outputs = after
    assert {name: array.tolist() for name, array in client.predict(x=[1]).items()} == after
    assert server.asked == ["GET", "POST", "POST", "GET", "POST"]


def test_an_answer_that_never_fits_the_metadata_is_an_error():
    client = Client("http://localhost:1")
    client._transport = server = Reloaded(y=[1.5])
    client.signatures()
    server.misleads = True
    with pytest.raises(ServingError, match="INTERNAL: The outputs do not match"):
        client.predict(x=[1])


@pytest.mark.parametrize("url", ["localhost:8501", "ftp://a:1", "http://", "http://a:1/v1"])
def test_the_url_must_name_protocol_and_port(url):
    with pytest.raises(ValueError, match='expects `url` to be "grpc://host:port"'):
        Client(url)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"version": 1, "label": "a"}, "a `version` or a `label`, not both"),
        ({"version": "1"}, "`version` to be an int of at least 0"),
        ({"version": -1}, "`version` to be an int of at least 0"),
        ({"label": 3}, "`label` to be a str"),
        ({"model": None}, "`model` to be a str"),
        ({"timeout": 0}, r"`timeout` to be a number in \(0, 3600"),
        ({"timeout": float("inf")}, r"`timeout` to be a number in \(0, 3600"),
        ({"timeout": None}, r"`timeout` to be a number in \(0, 3600"),
        ({"retries": -1}, "`retries` to be an int of at least 0"),
        ({"retries": 2.5}, "`retries` to be an int of at least 0"),
        ({"backoff": float("nan")}, r"`backoff` to be a number in \[0, 3600"),
    ],
)
def test_arguments_must_be_in_range(options, message):
    with pytest.raises(ValueError, match=message):
        Client("http://localhost:8501", **options)


def test_translate_takes_a_list_and_leaves_fillers_out(monkeypatch):
    client = Client("http://localhost:8501")
    with pytest.raises(ValueError, match="expects a list of texts"):
        client.translate("abc")
    found = {"text": [["a", "b", ""]], "score": [[-0.5, -1.0, -1e9]]}
    monkeypatch.setattr(
        client, "predict", lambda signature, text: {"serving_default": found}[signature]
    )
    assert client.translate(["x"]) == [[("a", -0.5), ("b", -1.0)]]


def test_the_command_shows_a_table(monkeypatch, capsys):
    answers = {"ein Hund": [("a dog", -0.25), ("dog", -1.5)], "狗": []}
    monkeypatch.setattr(
        client_module.Client, "translate", lambda self, texts: [answers[text] for text in texts]
    )
    assert command.main(["--url", "http://localhost:1", *answers]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "text      rank  score    answer",
        "--------  ----  -------  -----------",
        "ein Hund  1     -0.2500  a dog",
        "          2     -1.5000  dog",
        "狗        1     nan      (no answer)",
    ]


def test_the_command_says_what_went_wrong(capsys):
    assert command.main(["--url", "http://127.0.0.1:1", "--retries", "0", "a"]) == 1
    assert capsys.readouterr().err.startswith("error: UNAVAILABLE: 127.0.0.1:1")
    with pytest.raises(SystemExit) as raised:
        command.main(["--url", "localhost", "a"])
    assert raised.value.code == 2


def test_wide_letters_take_two_columns():
    assert format_table(("a", "b"), [("犬", "1"), ("e\u0301", "2")]).splitlines() == [
        "a   b",
        "--  -",
        "犬  1",
        "e\u0301   2",
    ]
