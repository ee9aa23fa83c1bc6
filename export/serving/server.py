"""Models, queue, protocols and the watch over version directories, put together."""

import contextlib
import os
import sys
import threading
import traceback

from keras_attention.export.serving.admission import Admission
from keras_attention.export.serving.errors import missing_package
from keras_attention.export.serving.models import ServedModel
from keras_attention.export.serving.service import MAX_RESPONSE_BYTES, MAX_ROWS, Service

MAX_REQUEST_BYTES = 16 * 2**20
LOADING_NICENESS = 5


class Server:
    """A model server for development, with the protocols of TensorFlow Serving.

    It speaks gRPC (Predict, GetModelMetadata, GetModelStatus) and the REST interface
    (`:predict`, `/metadata`, status), and follows the version directories. It batches nothing
    and neither encrypts nor asks who calls: in production run the TensorFlow model server.

    Args:
        models: Dict from names to base directories, or a list of `ServedModel`.
        host: Address to listen on; the default cannot be reached from other machines.
        grpc_port: Port of gRPC, 0 for a free one, None for none.
        rest_port: Port of REST, likewise.
        running: Requests that run at once, by default the number of cores.
        waiting: Requests that wait; more are refused with UNAVAILABLE or 503.
        max_request_bytes: Longest request; a longer one is RESOURCE_EXHAUSTED or 413.
        max_rows: Most rows of a request; one with more is INVALID_ARGUMENT or 400.
        max_response_bytes: Longest answer; a longer one is RESOURCE_EXHAUSTED or 413.
        seconds: How long a REST request may take. A gRPC request brings its own deadline.
        poll_seconds: Time between two looks at the directories.

    Raises:
        ImportError: If a package of the extra `serve` is missing.
        OSError: If it cannot listen on the host or a port.
        ValueError: If there is no model, or both ports are the same.

    Example, where `served/de-en/1` is an exported version:

        with Server({"de-en": "served/de-en"}) as server:
            print(Client(f"http://127.0.0.1:{server.rest_port}", "de-en").translate(["Hallo"]))
    """

    def __init__(
        self,
        models: dict[str, str | os.PathLike] | list[ServedModel],
        *,
        host: str = "127.0.0.1",
        grpc_port: int | None = 8500,
        rest_port: int | None = 8501,
        running: int | None = None,
        waiting: int = 128,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_rows: int = MAX_ROWS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        seconds: float = 30.0,
        poll_seconds: float = 1.0,
    ):
        if isinstance(models, dict):
            models = [ServedModel(name, base) for name, base in models.items()]
        if not models:
            raise ValueError("Server expects at least one model. Received: none")
        if grpc_port == rest_port and grpc_port not in (None, 0):
            raise ValueError(
                "Server expects `grpc_port` and `rest_port` to be different. "
                f"Received: grpc_port={grpc_port}, rest_port={rest_port}"
            )
        admission = Admission(running or os.cpu_count() or 1, waiting)
        self.service = Service(models, admission, max_rows, max_response_bytes)
        self._host, self._ports = host, (grpc_port, rest_port)
        self._max_request_bytes, self._seconds = max_request_bytes, seconds
        self._poll_seconds, self._stopping = poll_seconds, threading.Event()
        self._watch = threading.Thread(target=self._follow, name="versions", daemon=True)
        self._grpc = self._http = None
        self.grpc_port = self.rest_port = None

    def start(self) -> "Server":
        """Listens, and loads what is there; returns itself."""
        self.listen()
        self.load()
        return self

    def listen(self) -> None:
        """Opens the ports: states are told, predictions are UNAVAILABLE until `load` is done."""
        try:
            from keras_attention.export.serving import grpc_front, http_front
        except ImportError as error:
            raise missing_package(error.name or "tensorflow-serving-api") from error
        grpc_port, rest_port = self._ports
        for model in self.service.models.values():
            model.announce()
        try:
            if grpc_port is not None:
                self._grpc, self.grpc_port = grpc_front.start(
                    self.service, self._host, grpc_port, self._max_request_bytes
                )
            if rest_port is not None:
                application = http_front.Application(
                    self.service, self._max_request_bytes, self._seconds
                )
                self._http = http_front.HttpServer(application, self._host, rest_port)
                self.rest_port = self._http.port
        except BaseException:
            self.stop()
            raise

    def load(self) -> None:
        """Loads the versions that are there, and from then on those that appear."""
        try:
            self._poll()
        except BaseException:
            self.stop()
            raise
        self._watch.start()

    def stop(self) -> None:
        """Stops listening, answers what is under way and unloads the models."""
        self._stopping.set()
        for model in self.service.models.values():
            model.cancel()
        if self._grpc is not None:
            self._grpc.stop(grace=5).wait()
        if self._http is not None:
            self._http.stop()
        if self._watch.is_alive():
            self._watch.join()
        self.service.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()

    def _follow(self):
        while not self._stopping.wait(self._poll_seconds):
            # Not for the first version: the threads that TensorFlow starts for it, and keeps for
            # all, inherit the priority.
            if any(model.is_serving for model in self.service.models.values()):
                _lower_priority()
            self._poll()

    def _poll(self):
        for model in self.service.models.values():
            try:
                model.poll()
            except Exception:  # a directory that cannot be read now may be later
                traceback.print_exc()


def _lower_priority():
    """Lets the requests to what is served go before this thread, which loads versions."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(now, LOADING_NICENESS))
