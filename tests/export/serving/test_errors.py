"""What an error tells a client: short enough for gRPC, in one line, without folders."""

import time

import grpc
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tiny_model import predict_request

from keras_attention.export.serving import Server, _tensor_protos
from keras_attention.export.serving.errors import ServingError, strip_folders


@pytest.fixture(scope="module")
def stub(tiny_base):
    with (
        Server({"tiny": tiny_base}, grpc_port=0, rest_api_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
    ):
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.mark.parametrize("name", ["😀" * 1999, "é" * 3000, "x\n" * 1500, "%" * 5000, "x" * 9000])
def test_a_long_message_reaches_a_client_of_grpc(stub, name):
    request = predict_request(name, {"text": _tensor_protos.encode_strings(["a"])})
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request, timeout=30)
    assert raised.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert raised.value.details().startswith('Serving signature key "' + name[0])


def test_a_message_is_cut_only_where_it_is_too_long():
    assert ServingError("UNKNOWN", "a\r\nb\n\ud800").message == "a b \ud800"
    assert ServingError("UNKNOWN", "a" * 2000).message == "a" * 2000
    assert ServingError("UNKNOWN", "a" * 2001).message == "a" * 2000 + "..."
    assert ServingError("UNKNOWN", "é" * 1024).message == "é" * 1024
    assert ServingError("UNKNOWN", "é" * 1025).message == "é" * 1024 + "..."


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("file:///srv/u/v.pb", "v.pb"),
        ("at file://host/srv/u/v.pb.", "at v.pb."),
        ("a:/srv/u/v", "a:v"),
        ("no /srv/my user/de (old)/v1,2/v.pb here", "no v.pb here"),
        ("(/srv/a/v.pb)", "(v.pb)"),
        ("'/srv/a/v.pb'; /srv/a/w", "'v.pb'; w"),
        ("/srv/a/v.pb, /srv/a/w and /srv/a/x", "v.pb, w and x"),
        ("/srv/a/v.pb,/srv/a/w", "v.pb,w"),
        ("http://host:80/a/b and/or grpc://host/a/b", "http://host:80/a/b and/or grpc://host/a/b"),
        ("/job:localhost/replica:0/task:0/device:CPU:0", None),
        ("1/2 of while/body/_1/MatMul", None),
    ],
)
def test_a_file_is_named_without_its_folders(text, stripped):
    assert strip_folders(text) == (text if stripped is None else stripped)


def test_folders_are_found_in_linear_time():
    for part in ("/", "/a", "a ", "/a ", "/a b ", "file://", "a,/", " /a(b c"):
        begun = time.monotonic()
        strip_folders(part * (10**6 // len(part)))
        assert time.monotonic() - begun < 2, part
