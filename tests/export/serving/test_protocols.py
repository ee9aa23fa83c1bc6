"""What a client of the model server may rely on, over real sockets, gRPC and REST.

The tests run against our development server, and against `tensorflow_model_server` where it is
on PATH or named by `TENSORFLOW_MODEL_SERVER`.
"""

import http.client
import json

import grpc
import model_server
import numpy as np
import pytest
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)
from tiny_model import predict_request

from keras_attention.export.serving import _tensor_protos

INVALID, FAILED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
NOT_FOUND = grpc.StatusCode.NOT_FOUND


def strings(*texts):
    return _tensor_protos.encode_strings(texts)


@pytest.fixture
def stub(endpoint):
    with grpc.insecure_channel(f"127.0.0.1:{endpoint.grpc_port}") as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def rest(endpoint, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.rest_api_port, timeout=30)
    content = json.dumps(body) if isinstance(body, dict) else body
    connection.request(method, path, content)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, json.loads(answer) if answer else None


def predict(endpoint, body, model="/v1/models/tiny"):
    return rest(endpoint, "POST", f"{model}:predict", body)


@pytest.mark.skipif(not model_server.COMMAND, reason=model_server.MISSING)
def test_the_model_server_is_asked_too(endpoint):
    assert endpoint.rest_api_port


def test_a_text_is_answered_over_both_protocols(endpoint, stub):
    response = stub.Predict(predict_request("", {"text": strings("a", "", "ä\0")}), timeout=30)
    expected = [b"a!", b"!", "ä\0!".encode()]
    assert _tensor_protos.proto_to_array(response.outputs["text"]).tolist() == expected
    assert response.model_spec.version.value == 3
    assert response.model_spec.signature_name == "serving_default"
    body = {"instances": ["a", "", "ä\0"]}
    assert predict(endpoint, body) == (200, {"predictions": ["a!", "!", "ä\0!"]})


def test_rows_and_columns_say_the_same(endpoint):
    rows = [{"x": [1.0, 2.0], "n": 3}, {"x": [5.0, 7.0], "n": 11}]
    status, answer = predict(endpoint, {"signature_name": "several", "instances": rows})
    assert status == 200
    assert answer["predictions"] == [
        {"double": [2.0, 4.0], "sum": 6.0},
        {"double": [10.0, 14.0], "sum": 23.0},
    ]
    columns = {"x": [[1.0, 2.0], [5.0, 7.0]], "n": [3, 11]}
    status, answer = predict(endpoint, {"signature_name": "several", "inputs": columns})
    assert answer == {"outputs": {"double": [[2.0, 4.0], [10.0, 14.0]], "sum": [6.0, 23.0]}}


def test_every_dtype_goes_there_and_back(endpoint, stub):
    values = {
        "bool": np.array([True, False]),
        "float64": np.array([0.1, -1e300]),
        "int8": np.array([-128, 127], "int8"),
        "int64": np.array([-(2**63), 2**63 - 1]),
        "uint8": np.array([0, 255], "uint8"),
        "uint32": np.array([0, 2**32 - 1], "uint32"),
        "uint64": np.array([0, 2**64 - 1], "uint64"),
    }
    response = stub.Predict(predict_request("kinds", values), timeout=30)
    for name, array in values.items():
        found = _tensor_protos.proto_to_array(response.outputs[name])
        assert found.dtype == array.dtype and found.tolist() == array.tolist()
    columns = {name: array.tolist() for name, array in values.items()}
    status, answer = predict(endpoint, {"signature_name": "kinds", "inputs": columns})
    assert (status, answer) == (200, {"outputs": columns})


def test_non_finite_numbers_are_written_as_python_reads_them(endpoint):
    body = {"signature_name": "numbers", "instances": [0.0, -1.0, 1.0]}
    status, answer = predict(endpoint, body)
    assert status == 200
    low, nan, zero = answer["predictions"]
    assert low == -np.inf and np.isnan(nan) and zero == 0


def test_bytes_travel_as_base64(endpoint):
    body = {"signature_name": "bytes", "instances": [{"b64": "AP8A"}]}
    status, answer = predict(endpoint, body)
    assert answer == {"predictions": [{"raw_bytes": {"b64": "AP8A"}, "length": 3}]}


def test_an_output_filter_picks_outputs(stub):
    inputs = {"x": np.ones((2, 3), "float32"), "n": np.ones(2, "int32")}
    response = stub.Predict(predict_request("several", inputs, ["sum"]), timeout=30)
    assert list(response.outputs) == ["sum"]
    for outputs in (["other"], ["sum", "sum"]):
        with pytest.raises(grpc.RpcError) as raised:
            stub.Predict(predict_request("several", inputs, outputs), timeout=30)
        assert raised.value.code() == INVALID


@pytest.mark.parametrize(
    "request_, code",
    [
        (predict_request("none", {"text": strings("a")}), FAILED),
        (predict_request("", {}), INVALID),
        (predict_request("", {"text": strings("a"), "more": strings("a")}), INVALID),
        (predict_request("", {"other": strings("a")}), INVALID),
        (predict_request("", {"text": np.ones(2, "float32")}), INVALID),
        (predict_request("failing", {"n": np.array([1, 5], "int32")}), INVALID),
        (predict_request("", {"text": strings("a")}, model="other"), NOT_FOUND),
        (predict_request("", {"text": strings("a")}, model=""), INVALID),
        (predict_request("", {"text": strings("a")}, model="../tiny"), NOT_FOUND),
    ],
)
def test_a_wrong_request_has_its_code(stub, request_, code):
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request_, timeout=30)
    assert raised.value.code() == code
    assert raised.value.details()


def test_a_version_may_be_named_and_must_be_there(endpoint, stub):
    request = predict_request("", {"text": strings("a")})
    request.model_spec.version.value = 3
    assert stub.Predict(request, timeout=30).model_spec.version.value == 3
    request.model_spec.version.value = 4
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request, timeout=30)
    assert raised.value.code() == NOT_FOUND
    assert raised.value.details() == "Servable not found for request: Specific(tiny, 4)"
    body = {"instances": ["a"]}
    assert predict(endpoint, body, "/v1/models/tiny/versions/3")[0] == 200
    status, answer = predict(endpoint, body, "/v1/models/tiny/versions/4")
    assert status == 404 and answer == {"error": raised.value.details()}


def test_a_label_nobody_gave_is_refused(endpoint, stub):
    request = predict_request("", {"text": strings("a")})
    request.model_spec.version_label = "stable"
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request, timeout=30)
    assert raised.value.code() == INVALID
    status, answer = predict(endpoint, {"instances": ["a"]}, "/v1/models/tiny/labels/stable")
    assert (status, answer["error"]) == (400, "Unrecognized servable version label: stable")


def test_a_request_without_a_model_is_refused(stub):
    request = predict_request("", {"text": strings("a")})
    request.ClearField("model_spec")
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request, timeout=30)
    assert (raised.value.code(), raised.value.details()) == (INVALID, "Missing ModelSpec")


@pytest.mark.parametrize(
    "method, path, body, status, message",
    [
        ("POST", "/v1/models/tiny:predict", b"", 400, "JSON Parse error: The document is empty"),
        ("POST", "/v1/models/tiny:predict", b'{"instances": []}', 400, "No values in"),
        ("POST", "/v1/models/tiny:predict", b'{"instances": [1]}', 400, "is not of expected type"),
        (
            "POST",
            "/v1/models/tiny:predict",
            b'{"signature_name": "none", "instances": ["a"]}',
            400,
            'Serving signature name: "none" not found in signature def',
        ),
        (
            "POST",
            "/v1/models/tiny:predict",
            b'{"signature_name": "unequal", "instances": ["a"]}',
            400,
            "has inconsistent batch size: 2 expecting: 1",
        ),
        (
            "POST",
            "/v1/models/tiny:predict",
            b'{"signature_name": "failing", "instances": [7]}',
            400,
            "three or more",
        ),
        ("POST", "/v1/models/none:predict", b'{"instances": ["a"]}', 404, "Latest(none)"),
        ("POST", "/v1/models/tiny:explain", b"{}", 400, "Malformed request: POST /v1/models/tiny"),
        ("POST", "/v1/models/tiny", b"{}", 400, "Malformed request"),
        ("GET", "/v1/models/tiny:predict", None, 400, "Malformed request"),
        ("PUT", "/v1/models/tiny", b"{}", 400, "Malformed request"),
        ("GET", "/v1/models/none", None, 404, "Could not find any versions of model none"),
        ("GET", "/v1/models/tiny/versions/9", None, 404, "Could not find version 9 of model tiny"),
        ("GET", f"/v1/models/tiny/versions/{'9' * 30}", None, 400, "Failed to convert version"),
        ("GET", "/v1/models/none/metadata", None, 404, "Servable not found"),
    ],
)
def test_rest_errors_have_the_servers_words(endpoint, method, path, body, status, message):
    found, answer = rest(endpoint, method, path, body)
    assert found == status
    assert message in answer["error"]


def test_other_routes_are_not_found(endpoint):
    assert rest(endpoint, "GET", "/")[0] == 404
    assert rest(endpoint, "GET", "/v2/models/tiny")[0] == 404


def test_the_status_names_every_version(endpoint):
    status, answer = rest(endpoint, "GET", "/v1/models/tiny")
    entry = {
        "version": "3",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert (status, answer) == (200, {"model_version_status": [entry]})
    assert rest(endpoint, "GET", "/v1/models/TINY/versions/3")[0] == 404
    assert rest(endpoint, "GET", "/V1/MODELS/tiny/versions/3") == (200, answer)
    with grpc.insecure_channel(f"127.0.0.1:{endpoint.grpc_port}") as channel:
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "tiny"
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        (entry,) = stub.GetModelStatus(request, timeout=30).model_version_status
    assert (entry.version, entry.state) == (3, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
    assert entry.status.error_code == 0


def test_the_metadata_describes_every_signature(endpoint, stub):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "tiny"
    request.metadata_field.append("signature_def")
    response = stub.GetModelMetadata(request, timeout=30)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(found)
    assert set(found.signature_def["several"].outputs) == {"double", "sum"}
    status, answer = rest(endpoint, "GET", "/v1/models/tiny/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "tiny", "signature_name": "", "version": "3"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == set(found.signature_def)
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


@pytest.mark.parametrize("fields", [[], ["other"]])
def test_metadata_of_another_kind_is_refused(stub, fields):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = "tiny"
    with pytest.raises(grpc.RpcError) as raised:
        stub.GetModelMetadata(request, timeout=30)
    assert raised.value.code() == INVALID


def test_a_deadline_is_kept(stub):
    request = predict_request("slow", {"n": np.array([1_000_000], "int32")})
    with pytest.raises(grpc.RpcError) as raised:
        stub.Predict(request, timeout=0.3)
    assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
