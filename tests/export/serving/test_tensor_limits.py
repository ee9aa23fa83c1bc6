"""Tensors of gRPC requests that lie, or that would take much more memory than their message."""

import time

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tiny_model import predict_request

from keras_attention.export.serving import Server, ServingError, _tensor_protos


@pytest.fixture(scope="module")
def server(tiny_base):
    with Server({"tiny": tiny_base}, grpc_port=0, rest_api_port=None) as server:
        yield server


def proto(dtype, sizes, **values):
    message = tensor_pb2.TensorProto(dtype=dtype, **values)
    for size in sizes:
        message.tensor_shape.dim.add(size=size)
    return message


def refuse_over_grpc(server, request, code=grpc.StatusCode.INVALID_ARGUMENT):
    """The message that a request is refused with."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            stub.Predict(request, timeout=10)
    assert raised.value.code() == code
    return raised.value.details()


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
        proto(types_pb2.DT_STRING, [0, 1 << 28]),
    ],
)
def test_tensors_that_lie_are_refused(server, message):
    request = predict_request("", {})
    request.inputs["text"].CopyFrom(message)
    assert refuse_over_grpc(server, request)


@pytest.mark.parametrize("sizes", [[2], [], [0]])
def test_strings_without_values_are_empty(sizes):
    """So they are in TensorFlow's own ops."""
    array = _tensor_protos.proto_to_array(proto(types_pb2.DT_STRING, sizes))
    assert array.shape == tuple(sizes)
    assert all(text == b"" for text in array.flat)


def test_a_tensor_of_very_many_dimensions_is_refused_at_once():
    message = proto(types_pb2.DT_STRING, [1 << 62] * 200_000, string_val=[b"a"])
    begun = time.process_time()
    with pytest.raises(ServingError, match="tensor of 200000 dimensions, at most 64"):
        _tensor_protos.proto_to_array(message)
    assert time.process_time() - begun < 1  # their product alone takes a minute


@pytest.mark.parametrize("sizes", [(0, 2**28), (2**28, 0), (2**14, 0, 2**14), (0, 2**63 - 1)])
def test_an_empty_dimension_does_not_hide_the_size_of_the_others(sizes):
    with pytest.raises(ServingError, match="more than 67108864 elements"):
        _tensor_protos.proto_to_array(proto(types_pb2.DT_INT32, sizes))


def test_an_empty_tensor_keeps_its_shape():
    found = _tensor_protos.proto_to_array(proto(types_pb2.DT_INT32, [0, 100_000]))
    assert found.shape == (0, 100_000) and found.dtype == np.int32


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
        array = _tensor_protos.proto_to_array(message)
    except ServingError as refused:
        assert refused.code == "INVALID_ARGUMENT"
        return
    assert array.shape == tuple(dimension.size for dimension in message.tensor_shape.dim)
    assert _tensor_protos.get_dtype(array).as_datatype_enum == message.dtype


def test_one_value_may_stand_for_a_whole_tensor():
    message = proto(types_pb2.DT_STRING, [2, 3], string_val=[b"a"])
    assert _tensor_protos.proto_to_array(message).tolist() == [[b"a"] * 3] * 2


@pytest.fixture
def num_expanded(monkeypatch):
    """A list that grows with every tensor that is made of a message."""
    expand, names = _tensor_protos.proto_to_array, []

    def count(message):
        names.append(message.dtype)
        return expand(message)

    monkeypatch.setattr(_tensor_protos, "proto_to_array", count)
    return names


def test_inputs_that_a_signature_does_not_have_are_not_expanded(server, num_expanded):
    request = predict_request("", {})
    for number in range(2000):
        message = proto(types_pb2.DT_DOUBLE, [1 << 16], double_val=[1.0])
        request.inputs[f"x{number}"].CopyFrom(message)
    assert "input size does not match signature: 2000!=1." in refuse_over_grpc(server, request)
    del request.inputs["x7"]
    request.model_spec.signature_name = "none"
    details = refuse_over_grpc(server, request, grpc.StatusCode.FAILED_PRECONDITION)
    assert 'Serving signature key "none" not found' in details
    assert not num_expanded


def test_rows_are_counted_before_tensors_are_expanded(server, num_expanded):
    request = predict_request("", {})
    request.inputs["text"].CopyFrom(proto(types_pb2.DT_STRING, [4097], string_val=[b"a"]))
    assert "input text has 4097 examples, more than 4096" in refuse_over_grpc(server, request)
    assert not num_expanded


def test_all_inputs_share_what_values_may_be_repeated():
    half = proto(types_pb2.DT_FLOAT, [1 << 15], float_val=[1.0])
    found = _tensor_protos.protos_to_arrays({"x": half, "y": half}, max_rows=1 << 15)
    assert {name: array.shape for name, array in found.items()} == {
        "x": (1 << 15,),
        "y": (1 << 15,),
    }
    for last in (half, proto(types_pb2.DT_FLOAT, [0, 1 << 16])):
        with pytest.raises(ServingError, match="repeated up to 65536 times in a request"):
            _tensor_protos.protos_to_arrays({"x": half, "y": half, "z": last}, max_rows=1 << 15)


def test_a_long_string_is_not_repeated_often():
    message = proto(types_pb2.DT_STRING, [4096], string_val=[b"a" * (1 << 15)])
    with pytest.raises(ServingError, match="strings up to 67,108,864 bytes"):
        _tensor_protos.protos_to_arrays({"text": message}, max_rows=4096)


def test_a_deadline_that_passed_expands_no_tensor(num_expanded):
    message = proto(types_pb2.DT_FLOAT, [3], float_val=[1.0])
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: .* while the request was read"):
        _tensor_protos.protos_to_arrays({"x": message}, 4096, deadline=time.monotonic())
    assert not num_expanded


def test_a_message_that_is_too_long_for_grpc_is_cut(server):
    names = [f"{'x' * 90}{number}" for number in range(200)]
    request = predict_request("", {name: np.ones(1, "float32") for name in names})
    details = refuse_over_grpc(server, request)
    assert details.startswith("input size does not match signature: 200!=1.")
