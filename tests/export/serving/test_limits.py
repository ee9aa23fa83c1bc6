"""What keeps the development server alive: bounds on size, time and number, and no way around."""

import concurrent.futures
import http.client
import json
import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tiny_model import predict_request

from keras_attention.export.serving import Client, Server, ServingError, tensors
from keras_attention.export.serving.admission import Admission
from keras_attention.export.serving.loaded import LoadedVersion

NEVER = 2_000_000_000
LIMIT = 1 << 16


@pytest.fixture(scope="module")
def server(tiny_base):
    """One request runs, one waits; a REST request has one second."""
    options = {"grpc_port": 0, "rest_port": 0, "running": 1, "waiting": 1}
    with Server({"tiny": tiny_base}, **options, seconds=1.0, max_request_bytes=LIMIT) as server:
        yield server


@pytest.fixture(params=["grpc", "http"])
def client(request, server):
    port = server.grpc_port if request.param == "grpc" else server.rest_port
    with Client(f"{request.param}://127.0.0.1:{port}", "tiny", retries=0) as client:
        client.signatures()
        yield client


def exchange(server, request):
    """The status line of the answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", server.rest_port), 10) as connection:
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
    with Server({"tiny": tiny_base}, grpc_port=None, rest_port=0) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            hostile = [threads.submit(post, server, body) for _ in range(8)]
            slowest = 0.0
            while not all(future.done() for future in hostile) or not slowest:
                begun = time.monotonic()
                assert post(server, b'{"instances": ["a"]}')[0] == 200
                slowest = max(slowest, time.monotonic() - begun)
        assert {future.result()[0] for future in hostile} == {400}
        assert slowest < 2  # 14 seconds, where one expression holds the interpreter


def post(server, body, path="/v1/models/tiny:predict"):
    """The status of an answer, and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    connection.request("POST", path, body)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def test_what_is_no_http_is_refused(server):
    assert b"400" in exchange(server, b"\x16\x03\x01\x00\xff" * 20 + b"\r\n\r\n")


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
    with Client(f"http://127.0.0.1:{server.rest_port}", "tiny", timeout=1.0) as client:
        busy = threading.Thread(target=_code, args=(client,))
        busy.start()
        time.sleep(0.2)
        assert client.status() == {3: "AVAILABLE"}
        busy.join()


def proto(dtype, sizes, **values):
    message = tensor_pb2.TensorProto(dtype=dtype, **values)
    for size in sizes:
        message.tensor_shape.dim.add(size=size)
    return message


@pytest.mark.parametrize(
    "message",
    [
        proto(types_pb2.DT_STRING, [1 << 40], string_val=[b"a"]),
        proto(types_pb2.DT_STRING, [1 << 20, 1 << 20, 1 << 40], string_val=[b"a"]),
        proto(types_pb2.DT_STRING, [-1], string_val=[b"a"]),
        proto(types_pb2.DT_STRING, [1], string_val=[b"a", b"b"]),
        proto(types_pb2.DT_INT32, [3], tensor_content=b"abc"),
        proto(types_pb2.DT_INT32, [1] * 100, int_val=[1]),
        proto(types_pb2.DT_RESOURCE, [1]),
        proto(types_pb2.DT_VARIANT, [1]),
        proto(types_pb2.DT_BFLOAT16, [1], half_val=[1]),
        proto(0, [1]),
        proto(9999, [1]),
        proto(types_pb2.DT_STRING, []),
        proto(types_pb2.DT_STRING, [1 << 20], string_val=[b"a"]),
    ],
)
def test_tensors_that_lie_are_refused(server, message):
    request = predict_request("", {})
    request.inputs["text"].CopyFrom(message)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            stub.Predict(request, timeout=10)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_tensor_of_very_many_dimensions_is_refused_at_once():
    message = proto(types_pb2.DT_STRING, [1 << 62] * 200_000, string_val=[b"a"])
    begun = time.process_time()
    with pytest.raises(ServingError, match="tensor of 200000 dimensions, at most 64"):
        tensors.array_of(message)
    assert time.process_time() - begun < 1  # their product alone takes a minute


PROTOS = st.builds(
    lambda dtype, sizes, content, strings, numbers, halves: proto(
        dtype, sizes, tensor_content=content, string_val=strings, int_val=numbers, half_val=halves
    ),
    st.sampled_from([0, 1, 3, 4, 7, 9, 10, 14, 19, 20, 22, 101]),
    st.lists(st.integers(-1, 7) | st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.binary(max_size=40),
    st.lists(st.binary(max_size=3), max_size=3),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    st.lists(st.integers(0, 2**16), max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(PROTOS)
def test_any_tensor_is_read_or_refused(message):
    try:
        array = tensors.array_of(message)
    except ServingError as refused:
        assert refused.code == "INVALID_ARGUMENT"
        return
    assert array.shape == tuple(dimension.size for dimension in message.tensor_shape.dim)
    assert tensors.dtype_of(array).as_datatype_enum == message.dtype


def test_one_value_may_stand_for_a_whole_tensor():
    message = proto(types_pb2.DT_STRING, [2, 3], string_val=[b"a"])
    assert tensors.array_of(message).tolist() == [[b"a"] * 3] * 2


def test_a_request_of_very_many_rows_is_refused(server):
    def ask(rows):
        inputs = {"text": np.array([b"a"] * rows, object)}
        return server.service.predict("tiny", None, None, "", inputs)[1]["text"]

    assert len(ask(4096)) == 4096
    with pytest.raises(ServingError, match="input text has 4097 rows, more than 4096"):
        ask(4097)


def test_a_failure_of_tensorflow_tells_no_folders(server, monkeypatch, caplog):
    """A client learns what failed; the log says where."""
    _, loaded = server.service.models["tiny"].acquire().__enter__()
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
        server.service.predict("tiny", None, None, "", {"text": np.array([b"a"], object)})
    assert raised.value.message == ("assets/v.txt; a b; No such file at /job:localhost/replica:0")
    assert raised.value.code == "NOT_FOUND" and str(loaded.path) in caplog.text


def test_a_message_that_is_too_long_for_grpc_is_cut(server):
    names = [f"{'x' * 90}{number}" for number in range(200)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            request = predict_request("", {name: np.ones(1, "float32") for name in names})
            stub.Predict(request, timeout=10)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert raised.value.details().startswith("input size does not match signature: 200!=1.")


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
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    connection.request("POST", path, b'{"instances": ["a"]}')
    response = connection.getresponse()
    assert response.status in (400, 404)
    assert json.loads(response.read())["error"]
    connection.close()


def test_the_servers_own_mistakes_tell_no_details(server, client, monkeypatch, caplog):
    def broken(*arguments, **named):
        raise RuntimeError("a secret path")

    monkeypatch.setattr(server.service, "run", broken)
    with pytest.raises(ServingError) as raised:
        client.predict(text=["a"])
    assert raised.value.code in ("INTERNAL", "UNKNOWN")
    assert "secret" not in raised.value.message
    assert "a secret path" in caplog.text


def test_many_clients_get_their_own_answers(tiny_base):
    with Server({"tiny": tiny_base}, grpc_port=0, rest_port=0) as server:
        urls = f"grpc://127.0.0.1:{server.grpc_port}", f"http://127.0.0.1:{server.rest_port}"
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
        Server({"tiny": tiny_base}, grpc_port=None, rest_port=server.rest_port).start()
    with pytest.raises(OSError, match="gRPC cannot listen"):
        Server({"tiny": tiny_base}, grpc_port=server.grpc_port, rest_port=None).start()


def test_admission_counts_whoever_waits():
    admission = Admission(running=1, waiting=1)
    with admission.slot():
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
            with admission.slot(time.monotonic() + 0.05):
                pass
    with admission.slot(time.monotonic() + 1):
        pass
    for running, waiting in ((0, 1), (1, -1), (1.5, 1)):
        with pytest.raises(ValueError, match="Admission expects"):
            Admission(running, waiting)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.2])
def test_a_deadline_ends_the_computation_or_keeps_it_from_starting(server, seconds):
    inputs = {"n": np.array([1_000_000], "int32")}  # seconds, were it not ended
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
        server.service.predict("tiny", None, None, "slow", inputs, seconds=seconds)
