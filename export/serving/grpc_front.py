"""The gRPC side: `PredictionService` and `ModelService` over the stubs of the serving API."""

import concurrent.futures
import contextlib
import logging

import grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_attention.export.serving import addresses, messages, tensors
from keras_attention.export.serving.errors import ServingError, invalid
from keras_attention.export.serving.loaded import DEFAULT_SIGNATURE

# Threads beyond those that predict, so that states and metadata are told under full load.
SPARE_THREADS = 4
LOG = logging.getLogger(__name__)


class PredictionServicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata; the rest is UNIMPLEMENTED."""

    def __init__(self, service):
        self._service = service
        self._writer = tensors.ProtoWriter(service.max_response_bytes)

    def Predict(self, request, context):
        with _answering(context):
            name, version, label = _model(request)
            inputs = {key: tensors.array_of(proto) for key, proto in request.inputs.items()}
            signature = request.model_spec.signature_name
            outputs = tuple(request.output_filter)
            seconds = context.time_remaining()
            found, written = self._service.predict(
                name, version, label, signature, inputs, outputs, seconds, self._writer
            )
            response = predict_pb2.PredictResponse()
            response.model_spec.name = name
            response.model_spec.version.value = found
            response.model_spec.signature_name = signature or DEFAULT_SIGNATURE
            for key in list(written):
                response.outputs[key].CopyFrom(written.pop(key))
            return response

    def GetModelMetadata(self, request, context):
        with _answering(context):
            name, version, label = _model(request)
            if not request.metadata_field:
                raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != "signature_def":
                    raise invalid(f"Metadata field {field} is not supported")
            found, signatures = self._service.metadata(name, version, label)
            return messages.metadata_message(name, found, signatures)


class ModelServicer(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus; the table of models is fixed, so HandleReloadConfigRequest is not there."""

    def __init__(self, service):
        self._service = service

    def GetModelStatus(self, request, context):
        with _answering(context):
            # As the model server, which does not look at a label here.
            name, version, _ = _model(request)
            return messages.status_message(self._service.states(name, version))


def start(service, host: str, port: int, max_request_bytes: int):
    """Starts the gRPC server.

    Args:
        service: A `Service`.
        host: Address to listen on.
        port: Port, 0 for a free one.
        max_request_bytes: Longest message that is read.

    Returns:
        The server and its port.

    Raises:
        OSError: If it cannot listen there.
    """
    # gRPC does not say what is wrong with an address; a socket does.
    with addresses.listen("gRPC", host, port) as listener:
        address = addresses.join(*listener.getsockname()[:2])
    threads = service.admission.capacity + SPARE_THREADS
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc"),
        maximum_concurrent_rpcs=threads,
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionServicer(service), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(service), server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"gRPC cannot listen on {address}.")
    server.start()
    return server, port


@contextlib.contextmanager
def _answering(context):
    """Turns errors into gRPC statuses; one that is our own mistake tells no details."""
    try:
        yield
    except ServingError as error:
        code, message = error.code, error.message
    except Exception:
        LOG.exception("A request failed.")
        code, message = "INTERNAL", "The request failed; the server's log says why."
    else:
        return
    context.abort(grpc.StatusCode[code], message)


def _model(request):
    """The name, version and label a request asks for."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    choice = spec.WhichOneof("version_choice")
    version = spec.version.value if choice == "version" else None
    return spec.name, version, spec.version_label if choice == "version_label" else None
