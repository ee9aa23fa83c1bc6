"""`Server`: models, queue, protocols and a thread that watches version directories."""

import contextlib
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Self

from keras_attention.export.serving._bounded_request_queue import RequestQueue
from keras_attention.export.serving._server_core import (
    MAX_BATCH_SIZE,
    MAX_RESPONSE_BYTES,
    ServerCore,
)
from keras_attention.export.serving.errors import missing_package_error
from keras_attention.export.serving.served_model import ServedModel

MAX_REQUEST_BYTES = 16 * 2**20
LOADING_NICENESS = 5


class Server:
    """A model server for development, with the protocols of TensorFlow Serving.

    It implements gRPC (Predict, GetModelMetadata, GetModelStatus) and REST (`:predict`,
    `/metadata`, status), and watches the version directories. It has no batching, no encryption and
    no authentication: in production run TensorFlow Serving.

    Args:
        models: Dict from names to base directories, or a list of `ServedModel`.
        host: Address to listen on; other machines cannot reach the default.
        grpc_port: gRPC port; 0 for a free one, None to disable gRPC.
        rest_api_port: REST port; 0 for a free one, None to disable REST.
        max_concurrency: Number of requests that run at the same time; None for the number of CPU
            cores.
        max_queue: Number of requests that may wait; further ones fail with UNAVAILABLE or 503.
        max_request_bytes: Maximum size of a request; a larger one fails with RESOURCE_EXHAUSTED
            or 413.
        max_batch_size: Maximum number of examples of a request; a larger one fails with
            INVALID_ARGUMENT or 400.
        max_response_bytes: Maximum size of a response; a larger one fails with RESOURCE_EXHAUSTED
            or 413.
        timeout: Time limit of a REST request in seconds. A gRPC request has its own deadline.
        poll_seconds: Time between two polls of the directories.
        playground: Whether REST has a page at `/` for trying the models in a browser; None for
            whether `host` is an address that other machines cannot reach.

    Raises:
        ImportError: If a package of the extra `serve` is missing.
        OSError: If the host or a port is not available.
        ValueError: If there is no model, or both ports are the same.

    Example, where `served/de-en/1` is an exported version:

        with Server({"de-en": "served/de-en"}) as server:
            print(Client(f"http://127.0.0.1:{server.rest_api_port}", "de-en").translate(["Hallo"]))
    """

    core: ServerCore
    grpc_port: int | None
    rest_api_port: int | None

    def __init__(
        self,
        models: dict[str, str | os.PathLike[str]] | list[ServedModel],
        *,
        host: str = "127.0.0.1",
        grpc_port: int | None = 8500,
        rest_api_port: int | None = 8501,
        max_concurrency: int | None = None,
        max_queue: int = 128,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_batch_size: int = MAX_BATCH_SIZE,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        timeout: float = 30.0,
        poll_seconds: float = 1.0,
        playground: bool | None = False,
    ) -> None:
        if isinstance(models, dict):
            models = [ServedModel(name, base) for name, base in models.items()]
        if not models:
            raise ValueError("Server expects at least one model. Received: none")
        if grpc_port == rest_api_port and grpc_port not in (None, 0):
            raise ValueError(
                "Server expects `grpc_port` and `rest_api_port` to be different. "
                f"Received: grpc_port={grpc_port}, rest_api_port={rest_api_port}"
            )
        request_queue = RequestQueue(max_concurrency or os.cpu_count() or 1, max_queue)
        self.core = ServerCore(models, request_queue, max_batch_size, max_response_bytes)
        self._host, self._ports = host, (grpc_port, rest_api_port)
        self._max_request_bytes, self._timeout = max_request_bytes, timeout
        self._poll_seconds, self._stopping = poll_seconds, threading.Event()
        self._watch_thread = threading.Thread(
            target=self._watch_versions, name="versions", daemon=True
        )
        self._playground = playground
        self._grpc = self._http = None
        self.grpc_port = self.rest_api_port = None

    def start(self) -> "Server":
        """Listens, loads the existing versions, and returns the server."""
        self.listen()
        self.load()
        return self

    def listen(self) -> None:
        """Opens the ports; reports states, but predictions are UNAVAILABLE until `load` is done."""
        try:
            from keras_attention.export.serving import _grpc_server, _playground, _rest_application
        except ImportError as error:
            raise missing_package_error(error.name or "tensorflow-serving-api") from error
        grpc_port, rest_api_port = self._ports
        for model in self.core.models.values():
            model.announce_versions()
        try:
            if grpc_port is not None:
                self._grpc, self.grpc_port = _grpc_server.start(
                    self.core, self._host, grpc_port, self._max_request_bytes
                )
            if rest_api_port is not None:
                application = _rest_application.RestApplication(
                    self.core, self._max_request_bytes, self._timeout
                )
                self._http = _rest_application.RestServer(application, self._host, rest_api_port)
                self.rest_api_port = self._http.port
                if self._playground is None:
                    self._playground = _playground.is_loopback(self._http.address)
                if self._playground:
                    application.playground = _playground.Playground(
                        self.core.models, self.grpc_port
                    )
        except BaseException:
            self.stop()
            raise

    def load(self) -> None:
        """Loads the existing versions, then watches for new ones."""
        try:
            self._poll()
        except BaseException:
            self.stop()
            raise
        self._watch_thread.start()

    def stop(self) -> None:
        """Stops listening, finishes the current requests and unloads the models.

        Requests that still wait for their turn after a few seconds are refused.
        """
        self._stopping.set()
        for model in self.core.models.values():
            model.cancel()
        if self._grpc is not None:
            self._grpc.stop(grace=5).wait()
        if self._http is not None:
            self._http.stop()
        self.core.request_queue.close()
        if self._watch_thread.is_alive():
            self._watch_thread.join()
        self.core.close()

    @property
    def has_playground(self) -> bool:
        """Whether there is a page at `/`, known once the server listens."""
        return bool(self._playground) and self.rest_api_port is not None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, *exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None:
        self.stop()

    def _watch_versions(self):
        while not self._stopping.wait(self._poll_seconds):
            # Not before a version is loaded: TensorFlow's threads would inherit the priority.
            if any(model.is_serving for model in self.core.models.values()):
                _lower_priority()
            self._poll()

    def _poll(self):
        for model in self.core.models.values():
            try:
                model.poll()
            except Exception:  # the directory may be readable at the next poll
                traceback.print_exc()


def _lower_priority():
    """Lowers the priority of this thread, which loads versions, below that of requests."""
    if sys.platform == "linux":  # elsewhere it would apply to the whole process
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(now, LOADING_NICENESS))
