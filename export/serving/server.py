"""Models, queue, protocols and the watch over version directories, put together."""

import os
import threading
import traceback

from keras_attention.export.serving.admission import Admission
from keras_attention.export.serving.errors import missing_package
from keras_attention.export.serving.models import ServedModel
from keras_attention.export.serving.service import MAX_ROWS, Service

MAX_REQUEST_BYTES = 16 * 2**20


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
        seconds: How long a REST request may take. A gRPC request brings its own deadline.
        poll_seconds: Time between two looks at the directories.

    Raises:
        ImportError: If a package of the extra `serve` is missing.
        OSError: If a port is taken.

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
        seconds: float = 30.0,
        poll_seconds: float = 1.0,
    ):
        if isinstance(models, dict):
            models = [ServedModel(name, base) for name, base in models.items()]
        if not models:
            raise ValueError("Server expects at least one model. Received: none")
        admission = Admission(running or os.cpu_count() or 1, waiting)
        self.service = Service(models, admission, max_rows)
        self._host, self._ports = host, (grpc_port, rest_port)
        self._max_request_bytes, self._seconds = max_request_bytes, seconds
        self._poll_seconds, self._stopping = poll_seconds, threading.Event()
        self._watch = threading.Thread(target=self._follow, name="versions", daemon=True)
        self._grpc = self._http = None
        self.grpc_port = self.rest_port = None

    def start(self) -> "Server":
        """Loads what is there, then listens; returns itself."""
        try:
            from keras_attention.export.serving import grpc_front, http_front
        except ImportError as error:
            raise missing_package(error.name or "tensorflow-serving-api") from error
        grpc_port, rest_port = self._ports
        try:
            self._poll()
            if grpc_port is not None:
                address = f"[{self._host}]" if ":" in self._host else self._host
                self._grpc, self.grpc_port = grpc_front.start(
                    self.service, f"{address}:{grpc_port}", self._max_request_bytes
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
        self._watch.start()
        return self

    def stop(self) -> None:
        """Stops listening, answers what is under way and unloads the models."""
        self._stopping.set()
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
            self._poll()

    def _poll(self):
        for model in self.service.models.values():
            try:
                model.poll()
            except Exception:  # a directory that cannot be read now may be later
                traceback.print_exc()
