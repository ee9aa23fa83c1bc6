"""The gRPC server: `PredictionService` and `ModelService` of TensorFlow Serving."""

import concurrent.futures
import contextlib
import logging

import grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_attention.export.serving import (
    _listening_socket,
    _status_and_metadata_responses,
    _tensor_protos,
)
from keras_attention.export.serving._loaded_version import DEFAULT_SIGNATURE, check_input_names
from keras_attention.export.serving.errors import (
    REQUEST_FAILED,
    ServingError,
    invalid_argument,
)

# Threads besides those that predict, so that status and metadata work under full load.
SPARE_THREADS = 4
LOG = logging.getLogger(__name__)


class PredictionServicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Implements Predict and GetModelMetadata; other calls are UNIMPLEMENTED."""

    def __init__(self, core):
        self._core = core
        self._writer = _tensor_protos.ProtoWriter(core.max_response_bytes)

    def Predict(self, request, context):
        with _convert_errors(context):
            name, version, label = _read_model_spec(request)

            def read_inputs(definition, deadline):
                if not context.is_active():  # it has waited for its turn
                    raise ServingError("CANCELLED", "The client went away.")
                check_input_names(definition, request.inputs)
                max_rows = self._core.max_batch_size
                return _tensor_protos.protos_to_arrays(request.inputs, max_rows, deadline)

            signature = request.model_spec.signature_name
            outputs = tuple(request.output_filter)
            timeout = context.time_remaining()
            found, written = self._core.predict(
                name, version, label, signature, read_inputs, outputs, timeout, self._writer
            )
            response = predict_pb2.PredictResponse()
            response.model_spec.name = name
            response.model_spec.version.value = found
            response.model_spec.signature_name = signature or DEFAULT_SIGNATURE
            for key in list(written):
                response.outputs[key].CopyFrom(written.pop(key))
            return response

    def GetModelMetadata(self, request, context):
        with _convert_errors(context):
            name, version, label = _read_model_spec(request)
            if not request.metadata_field:
                raise invalid_argument(
                    "GetModelMetadataRequest must specify at least one metadata_field"
                )
            for field in request.metadata_field:
                if field != "signature_def":
                    raise invalid_argument(f"Metadata field {field} is not supported")
            found, signatures = self._core.metadata(name, version, label)
            return _status_and_metadata_responses.make_metadata_response(name, found, signatures)


class ModelServicer(model_service_pb2_grpc.ModelServiceServicer):
    """Implements GetModelStatus. The models are fixed, so there is no HandleReloadConfigRequest."""

    def __init__(self, core):
        self._core = core

    def GetModelStatus(self, request, context):
        with _convert_errors(context):
            # TensorFlow Serving ignores the label here.
            name, version, _ = _read_model_spec(request)
            return _status_and_metadata_responses.make_status_response(
                self._core.states(name, version)
            )


def start(core, host: str, port: int, max_request_bytes: int):
    """Starts the gRPC server.

    Args:
        core: A `ServerCore`.
        host: Address to listen on.
        port: Port, 0 for a free one.
        max_request_bytes: Maximum size of a request.

    Returns:
        The server and its port.

    Raises:
        OSError: If the address is not available.
    """
    # A socket reports the reason if an address is not available; gRPC does not.
    with _listening_socket.listen("gRPC", host, port) as listener:
        address = _listening_socket.format_address(*listener.getsockname()[:2])
    threads = core.request_queue.capacity + SPARE_THREADS
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
        PredictionServicer(core), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(core), server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"gRPC cannot listen on {address}.")
    server.start()
    return server, port


@contextlib.contextmanager
def _convert_errors(context):
    """Converts errors to gRPC statuses; logs internal errors and returns no details of them."""
    try:
        yield
    except ServingError as error:
        code, message = error.code, error.message
    except Exception:
        LOG.exception("A request failed.")
        code, message = "INTERNAL", REQUEST_FAILED
    else:
        return
    context.abort(grpc.StatusCode[code], message)


def _read_model_spec(request):
    """Returns the model name, version and label of a request."""
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    spec = request.model_spec
    choice = spec.WhichOneof("version_choice")
    version = spec.version.value if choice == "version" else None
    return spec.name, version, spec.version_label if choice == "version_label" else None
