"""The gRPC calls of `Client`."""

from keras_attention.export.serving import _tensor_protos
from keras_attention.export.serving.errors import ServingError, missing_package_error

#: gRPC's message for too many calls; its code, RESOURCE_EXHAUSTED, also means a long message.
GRPC_BUSY_MESSAGE = "Concurrent RPC limit exceeded!"


class GrpcClient:
    """Sends requests over gRPC, with the stubs of tensorflow-serving-api.

    Args:
        target: `"host:port"`.
        max_message_bytes: Maximum size of a message in either direction.
    """

    def __init__(self, target: str, max_message_bytes: int):
        try:
            import grpc
            from tensorflow_serving.apis import (
                model_service_pb2_grpc,
                prediction_service_pb2_grpc,
            )
        except ImportError as error:
            raise missing_package_error(error.name or "tensorflow-serving-api") from None
        self._errors = grpc.RpcError
        options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.enable_retries", 0),  # `Client` retries itself
        ]
        self._channel = grpc.insecure_channel(target, options)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def predict(self, client, signature, arrays, output_filter, definition, seconds):
        """Returns a dict of arrays, with strings as bytes."""
        from tensorflow_serving.apis import predict_pb2

        request = self._make_request(predict_pb2.PredictRequest, client)
        request.model_spec.signature_name = signature
        for name, array in arrays.items():
            array = _tensor_protos.encode_strings(array) if array.dtype.kind in "OSU" else array
            request.inputs[name].CopyFrom(_tensor_protos.array_to_proto(array))
        request.output_filter.extend(output_filter)
        response = self._call(self._prediction.Predict, request, seconds)
        return {
            name: _tensor_protos.proto_to_array(proto) for name, proto in response.outputs.items()
        }

    def signatures(self, client, seconds):
        """Returns the `SignatureDef`s by name."""
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = self._make_request(get_model_metadata_pb2.GetModelMetadataRequest, client)
        request.metadata_field.append("signature_def")
        response = self._call(self._prediction.GetModelMetadata, request, seconds)
        found = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(found)
        return dict(found.signature_def)

    def status(self, client, seconds):
        """Returns the states by version."""
        from tensorflow_serving.apis import get_model_status_pb2

        request = self._make_request(get_model_status_pb2.GetModelStatusRequest, client)
        response = self._call(self._model.GetModelStatus, request, seconds)
        name = get_model_status_pb2.ModelVersionStatus.State.Name
        return {entry.version: name(entry.state) for entry in response.model_version_status}

    def close(self):
        """Closes the channel."""
        self._channel.close()

    def _make_request(self, kind, client):
        request = kind()
        request.model_spec.name = client.model
        if client.version is not None:
            request.model_spec.version.value = client.version
        if client.label is not None:
            request.model_spec.version_label = client.label
        return request

    def _call(self, method, request, seconds):
        try:
            return method(request, timeout=seconds)
        except self._errors as error:
            code, details = error.code().name, error.details() or ""
            raise ServingError(
                "UNAVAILABLE" if details == GRPC_BUSY_MESSAGE else code, details
            ) from None
