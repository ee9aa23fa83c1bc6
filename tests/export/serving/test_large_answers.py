"""Answers that would fill the memory are refused before they do, with the rows that fit."""

import http.client
import json
import pathlib
import re
import socket
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.export.manifest import write_manifest
from keras_attention.export.serving import Client, Server, ServingError

LIMIT = 1 << 20
LONG = ["a" * 100] * 40 + ["a" * 200] + ["a"] * 40


class Squares(tf.Module):
    """One answer grows with the square of the longest text, as an alignment does."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def echo(self, text):
        return {"text": text}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def square(self, text):
        size = tf.reduce_max(tf.strings.length(text))
        weights = tf.ones([tf.size(text), size, size], tf.float32) / tf.cast(size, tf.float32)
        return {"square": weights, "text": text}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="n")])
    def scalars(self, n):
        return {"sum": tf.reduce_sum(n), "text": tf.constant(b"a\0")}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base, model = tmp_path_factory.mktemp("squares"), Squares()
    signatures = {"serving_default": model.echo, "square": model.square, "scalars": model.scalars}
    tf.saved_model.save(model, str(base / "1"), signatures=signatures)
    write_manifest(base / "1")
    return base


@pytest.fixture(scope="module")
def server(base):
    with Server({"squares": base}, grpc_port=0, rest_port=0, max_response_bytes=LIMIT) as server:
        yield server


@pytest.fixture(params=["grpc", "http"])
def client(request, server):
    port = server.grpc_port if request.param == "grpc" else server.rest_port
    with Client(f"{request.param}://127.0.0.1:{port}", "squares", retries=0) as client:
        yield client


def test_as_many_rows_are_answered_as_the_refusal_says(client):
    with pytest.raises(ServingError, match="longer than 1,048,576 bytes. Send at most") as raised:
        client.predict("square", text=LONG)
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    rows = int(re.search(r"at most (\d+) rows", raised.value.message)[1])
    # As many as fit: floats of 4 bytes, or "0.005, ".
    expected = LIMIT / 200**2 / (4 if client.url.startswith("grpc") else 7)
    assert 0.8 * expected < rows + 1 and rows <= expected
    longest = ["a" * 200] * rows
    assert client.predict("square", text=longest)["square"].shape == (rows, 200, 200)


def test_the_longest_row_alone_is_run_before_all_are(server, client, monkeypatch):
    _, loaded = server.service.models["squares"].acquire().__enter__()
    rows, run = [], loaded.run

    def noticed(signature, inputs, *arguments):
        rows.append([len(text) for text in inputs["text"]])
        return run(signature, inputs, *arguments)

    monkeypatch.setattr(loaded, "run", noticed)
    with pytest.raises(ServingError):
        client.predict("square", text=LONG)
    assert rows == [[200]]
    client.predict(text=LONG)  # an output of one length is not tried
    assert [len(each) for each in rows] == [1, len(LONG)]


def test_a_row_that_is_too_long_alone_is_refused(client):
    for rows in (1, 17):
        with pytest.raises(ServingError, match="longer than 1,048,576 bytes") as raised:
            client.predict("square", text=["a" * 700] * rows)
        assert ("One row takes more" in raised.value.message) == (rows == 17)


def test_many_short_rows_are_answered(client):
    found = client.predict("square", text=["abc"] * 4096)
    assert found["square"].shape == (4096, 3, 3) and len(found["text"]) == 4096


def test_scalars_are_answered(client):
    found = client.predict("scalars", n=[1, 2, 4])
    assert found["sum"] == 7 and found["sum"].shape == ()
    assert found["text"].item() == "a\0"


def test_a_client_that_does_not_read_is_dropped(base, caplog):
    body = json.dumps({"signature_name": "square", "instances": ["a" * 1_100]}).encode()
    head = b"POST /v1/models/squares:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with Server({"squares": base}, grpc_port=None, rest_port=0, seconds=2.0) as server:
        with socket.create_connection(("127.0.0.1", server.rest_port), 10) as connection:
            connection.sendall(head % len(body) + body)
            until = time.monotonic() + 20
            while "did not read its answer" not in caplog.text and time.monotonic() < until:
                time.sleep(0.05)
            received, size = connection.recv(1 << 16), 0
            length = int(re.search(rb"content-length: (\d+)", received)[1])
            try:
                while part := connection.recv(1 << 16):
                    size += len(part)
            except ConnectionResetError:
                pass
    assert b"200" in received and size < length
    assert "did not read its answer in 2 s" in caplog.text


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_four_thousand_long_rows_with_alignments_take_no_time_and_no_memory(tmp_path):
    from toy_export import write_toy

    base = tmp_path / "toy"
    write_toy(base, beam_width=4, max_length=64, max_source_length=512)
    with Server({"toy": base}, grpc_port=None, rest_port=0) as server:

        def ask(rows):
            connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=90)
            instances = [("abcdefg " * 63)[:500]] * rows
            body = {"signature_name": "translate_with_alignment", "instances": instances}
            connection.request("POST", "/v1/models/toy:predict", json.dumps(body))
            response = connection.getresponse()
            found = response.status, response.read()
            connection.close()
            return found

        before, begun = resident_bytes(), time.monotonic()
        status, answer = ask(4096)
        assert status == 413 and time.monotonic() - begun < 5
        rows = int(re.search(rb"at most (\d+) rows", answer)[1])
        begun = time.monotonic()
        status, answer = ask(rows)
        assert status == 200 or (status == 504 and time.monotonic() - begun < 35)
        assert resident_bytes() < 3e9
        del answer
        time.sleep(2)
        assert resident_bytes() < before + 0.7e9


def test_an_empty_request_is_answered(client):
    found = client.predict(text=np.empty(0, object))
    assert found["text"].shape == (0,)
