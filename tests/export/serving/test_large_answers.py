"""Answers that would fill the memory are refused before they do, with the rows that fit."""

import http.client
import json
import pathlib
import re
import socket
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export.serving import Client, Server, ServingError, _server_core
from keras_attention.export.serving._tensor_protos import ProtoWriter

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

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def words(self, text):
        """Ones for the words of a row, zeros for those of longer rows."""
        mask = tf.sequence_mask(tf.strings.split(text).row_lengths(), dtype=tf.float32)
        return {"words": mask[:, :, None] * mask[:, None], "text": text}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="n")])
    def scalars(self, n):
        return {"sum": tf.reduce_sum(n), "text": tf.constant(b"a\0")}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base, model = tmp_path_factory.mktemp("squares"), Squares()
    signatures = {"serving_default": model.echo, "square": model.square, "scalars": model.scalars}
    signatures["words"] = model.words
    tf.saved_model.save(model, str(base / "1"), signatures=signatures)
    write_manifest(base / "1")
    return base


@pytest.fixture(scope="module")
def server(base):
    with Server(
        {"squares": base}, grpc_port=0, rest_api_port=0, max_response_bytes=LIMIT
    ) as server:
        yield server


@pytest.fixture(params=["grpc", "http"])
def client(request, server):
    port = server.grpc_port if request.param == "grpc" else server.rest_api_port
    with Client(f"{request.param}://127.0.0.1:{port}", "squares", retries=0) as client:
        yield client


def test_as_many_rows_are_answered_as_the_refusal_says(client):
    with pytest.raises(ServingError, match="longer than 1,048,576 bytes. Send at most") as raised:
        client.predict("square", text=LONG)
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    rows = int(re.search(r"at most (\d+) examples", raised.value.message)[1])
    # As many as fit: floats of 4 bytes, or "0.005, ".
    expected = LIMIT / 200**2 / (4 if client.url.startswith("grpc") else 7)
    assert 0.8 * expected < rows + 1 and rows <= expected
    longest = ["a" * 200] * rows
    assert client.predict("square", text=longest)["square"].shape == (rows, 200, 200)


@pytest.fixture
def runs(server, monkeypatch):
    """A list that grows with the lengths of the texts of every run of the model."""
    _, loaded = server.core.models["squares"].acquire().__enter__()
    lengths, run = [], loaded.run

    def record(signature, inputs, *arguments, **options):
        lengths.append([len(text) for text in inputs["text"]])
        return run(signature, inputs, *arguments, **options)

    monkeypatch.setattr(loaded, "run", record)
    return lengths


def test_few_rows_and_the_longest_are_run_before_all_are(client, runs):
    with pytest.raises(ServingError):
        client.predict("square", text=LONG)
    assert len(runs) == 1 and len(runs[0]) <= 8 and max(runs[0]) == 200
    client.predict(text=LONG)  # an output of one length is not tried
    assert [len(each) for each in runs[1:]] == [len(LONG)]


def test_outputs_that_are_dropped_are_probed_too(base):
    """A prepared set of outputs answers for a smaller one, so its size counts."""
    with Server({"squares": base}, grpc_port=0, rest_api_port=None) as server:
        _, loaded = server.core.models["squares"].acquire().__enter__()
        lengths, run = [], loaded._session.run

        def record(fetches, feeds, **options):
            lengths.append(len(next(iter(feeds.values()))))
            return run(fetches, feeds, **options)

        loaded._session.run = record
        with Client(f"grpc://127.0.0.1:{server.grpc_port}", "squares", retries=0) as client:
            client.predict("square", text=["a"])
            found = client.predict("square", text=["ab"] * 300, output_filter=["text"])
    assert list(found) == ["text"] and len(found["text"]) == 300
    assert lengths[0] == 1 and lengths[1] <= 8 and lengths[2:] == [128, 128, 44]


DECOYS = ["x" * 900] * 2 + ["\u0301" * 420]


@pytest.mark.parametrize("position", [0, 500, 999])
def test_a_decoy_of_many_bytes_and_few_tokens_hides_nothing(client, runs, position):
    """The model counts words; the row of most bytes and that of most characters have one."""
    rows = ["a " * 200] * 1000
    rows[position:position] = DECOYS
    with pytest.raises(
        ServingError, match=r"longer than 1,048,576 bytes. Send at most \d+ examples"
    ):
        client.predict("words", text=rows)
    assert len(runs) == 1 and len(runs[0]) <= 8


def test_long_rows_that_no_estimate_finds_end_the_run(client, runs):
    rows = ["x" * 450] * 1000
    rows[200:300] = ["a " * 200] * 100
    with pytest.raises(ServingError, match="longer than 1,048,576 bytes. Send at most"):
        client.predict("words", text=rows)
    assert [len(each) for each in runs[1:]] == [128, 128]  # of eight parts


@pytest.mark.parametrize("longest", [1, 5])
def test_parts_are_together_what_all_rows_are(client, runs, longest):
    """Equal parts are joined; the model itself pads unequal ones."""
    rows = [f"{number:04d}" for number in range(300)]
    rows[200] = "a " * longest
    found = client.predict("words", text=rows)
    assert found["text"].tolist() == rows
    assert found["words"].shape == (300, longest, longest)
    assert found["words"].sum(axis=(1, 2)).tolist() == [1.0] * 200 + [longest**2] + [1.0] * 99
    assert [len(each) for each in runs[1:]] == [128, 128, 44] + [300] * (longest > 1)


def test_parts_end_with_the_deadline(server, runs):
    def wait(outputs):
        time.sleep(0.2)
        return 1

    writer = types.SimpleNamespace(size=wait, write=lambda outputs, deadline: outputs)
    inputs = {"text": np.array([b"a"] * 4096, object)}
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
        server.core.predict("squares", None, None, "words", inputs, (), 1.0, writer)
    assert len(runs) < 10


def test_the_longest_of_each_dimension_counts():
    """A source of one part and a target of another pad all rows."""
    row_size = _server_core._PaddedRowSize(ProtoWriter(LIMIT))
    row_size.add({"x": np.ones((7, 100, 1), "float32")})
    assert row_size.compute() == 400
    row_size.add({"x": np.ones((3, 2, 50), "float32")})
    assert row_size.compute() == 100 * 50 * 4


def test_a_row_that_is_too_long_alone_is_refused(client):
    for rows in (1, 17):
        with pytest.raises(ServingError, match="longer than 1,048,576 bytes") as raised:
            client.predict("square", text=["a" * 700] * rows)
        assert ("One example takes more" in raised.value.message) == (rows == 17)


def test_many_short_rows_are_answered(client):
    found = client.predict("square", text=["abc"] * 4096)
    assert found["square"].shape == (4096, 3, 3) and len(found["text"]) == 4096


def test_scalars_are_answered(client):
    found = client.predict("scalars", n=[1, 2, 4])
    assert found["sum"] == 7 and found["sum"].shape == ()
    assert found["text"].item() == "a\0"


@pytest.mark.thorough
def test_a_client_that_does_not_read_is_dropped(base, caplog):
    body = json.dumps({"signature_name": "square", "instances": ["a" * 1_100]}).encode()
    head = b"POST /v1/models/squares:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with Server({"squares": base}, grpc_port=None, rest_api_port=0, timeout=6.0) as server:
        with socket.create_connection(("127.0.0.1", server.rest_api_port), 10) as connection:
            connection.sendall(head % len(body) + body)
            until = time.monotonic() + 40
            while "did not read its response" not in caplog.text and time.monotonic() < until:
                time.sleep(0.05)
            received, size = connection.recv(1 << 16), 0
            length = int(re.search(rb"content-length: (\d+)", received)[1])
            try:
                while part := connection.recv(1 << 16):
                    size += len(part)
            except ConnectionResetError:
                pass
    assert b"200" in received and size < length
    assert "did not read its response in 6 s" in caplog.text


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_four_thousand_long_rows_with_alignments_take_no_time_and_no_memory(tmp_path):
    from toy_export import write_toy

    base = tmp_path / "toy"
    write_toy(base, beam_width=4, max_length=64, max_source_length=512)
    with Server({"toy": base}, grpc_port=None, rest_api_port=0) as server:

        def ask(rows):
            connection = http.client.HTTPConnection("127.0.0.1", server.rest_api_port, timeout=90)
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
        rows = int(re.search(rb"at most (\d+) examples", answer)[1])
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
