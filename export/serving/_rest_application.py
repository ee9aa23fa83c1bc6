"""The REST server: TensorFlow Serving's routes as an ASGI application, run by uvicorn."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import logging
import re
import threading
import time
import urllib.parse

import numpy as np
from google.protobuf import json_format

from keras_attention.export._argparse_types import parse_int
from keras_attention.export.serving import (
    _event_stream,
    _json_requests,
    _json_responses,
    _listening_socket,
    _status_and_metadata_responses,
)
from keras_attention.export.serving._bounded_request_queue import RequestQueue
from keras_attention.export.serving._loaded_version import LoadedVersion
from keras_attention.export.serving._malloc_trim import schedule_trim
from keras_attention.export.serving._server_core import LARGE_RESPONSE_BYTES, compute_deadline
from keras_attention.export.serving.errors import (
    REQUEST_FAILED,
    ServingError,
    invalid_argument,
    missing_package_error,
)

_MODEL = r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
MODEL_POST = re.compile(_MODEL + r":(?P<verb>predict|classify|regress|stream)", re.IGNORECASE)
MODEL_GET = re.compile(_MODEL + r"(?P<metadata>/metadata)?", re.IGNORECASE)
JSON_OPTIONS = {"always_print_fields_with_no_presence": True}
LOG = logging.getLogger(__name__)
GRACE_SECONDS = 5
LARGE_REQUEST_BYTES = 2**20  # larger bodies are parsed one at a time
JSON_HEADERS = [(b"content-type", b"application/json")]
NO_PLAYGROUND = "This server has no page for trying the models; start it with --playground."


@dataclasses.dataclass(frozen=True)
class ParsedRequest:
    """A request and the version that answers it.

    Args:
        loaded: The `LoadedVersion`.
        signature: Name of the signature.
        inputs: Dict of the input arrays; those of `<signature>_start` if the request is a stream.
        writer: Writes the response of `:predict`.
        steps: For a stream, the number of tokens between two events; None otherwise.
    """

    loaded: LoadedVersion
    signature: str
    inputs: dict[str, np.ndarray]
    writer: _json_responses.JsonWriter
    steps: int | None


class RestApplication:
    """The ASGI application.

    Args:
        core: A `ServerCore`.
        max_request_bytes: Maximum size of a body; a larger one gets the status 413.
        timeout: Time limit in seconds for reading a body, and for the response.

    Attributes:
        playground: The `Playground` at `/`, or None.
    """

    def __init__(self, core, max_request_bytes: int, timeout: float = 30.0):
        self._core, self.playground = core, None
        self.max_request_bytes, self.timeout = max_request_bytes, timeout
        self._threads = concurrent.futures.ThreadPoolExecutor(
            core.request_queue.capacity, thread_name_prefix="rest"
        )
        self._num_active = 0
        # A parsed body takes about 30 times the memory of its bytes, and the interpreter lock
        # allows only one to be parsed at a time anyway.
        self._large_bodies = RequestQueue(1, core.request_queue.capacity)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            raise ValueError(f"RestApplication serves HTTP only. Received: {scope['type']}")
        status, headers = 200, JSON_HEADERS
        try:
            if _is_root(scope):
                headers, body = self._get_page()
            else:
                body = await self._handle_request(scope, receive, send)
            if body is None:
                return
        except ServingError as error:
            status, body = error.http_status, [_json_responses.dump_json({"error": error.message})]
        except Exception:
            LOG.exception("A request failed.")
            status, body = 500, [_json_responses.dump_json({"error": REQUEST_FAILED})]
        size = sum(map(len, body))
        headers = [*headers, (b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        try:
            await self._send(body, send)
        except TimeoutError:
            LOG.warning("A client did not read its response in %g s.", self.timeout)
            scope["extensions"]["abort"]()
            await asyncio.sleep(0)  # lets the loop register that the connection is lost
        if size > LARGE_RESPONSE_BYTES:
            schedule_trim()

    async def _send(self, pieces, send):
        """Sends a body in pieces, frees each piece, and raises `TimeoutError` for slow clients."""
        pieces.reverse()
        deadline = time.monotonic() + self.timeout
        while pieces:
            piece = pieces.pop()
            message = {"type": "http.response.body", "body": piece, "more_body": bool(pieces)}
            await asyncio.wait_for(send(message), deadline - time.monotonic())

    def close(self) -> None:
        """Ends the threads after their current requests; refuses those that wait."""
        self._core.request_queue.close()
        self._threads.shutdown()

    async def _handle_request(self, scope, receive, send):
        """Returns the pieces of a JSON body, or None if the response has already been sent."""
        method, path = scope["method"], _get_path(scope)
        if not path.lower().startswith("/v1/"):
            raise ServingError("NOT_FOUND", f"Not found: {method} {path}")
        pattern = {"POST": MODEL_POST, "GET": MODEL_GET}.get(method)
        match = pattern and pattern.fullmatch(path)
        if not match:
            raise invalid_argument(f"Malformed request: {method} {path}")
        model = urllib.parse.unquote(match["model"])
        version = _parse_version(match["version"])
        label = urllib.parse.unquote(match["label"]) if match["label"] else None
        if method == "POST":
            verb = match["verb"].lower()
            if verb not in ("predict", "stream"):
                message = f"This server has no :{verb}; use :predict or :stream."
                raise ServingError("UNIMPLEMENTED", message)
            body = await self._read_body(scope, receive)
            deadline = compute_deadline(self.timeout)
            if verb == "stream":
                events = self._generate_events(model, version, label, body, deadline)
                return await self._send_events(events, scope, receive, send)
            return await self._run_in_thread(
                self._run_predict, model, version, label, body, deadline
            )
        if match["metadata"]:
            return [self._get_metadata(model, version, label)]
        return [self._get_status(model, version)]

    def _get_page(self):
        """Returns the headers and the pieces of the page for trying the models."""
        if self.playground is None:
            raise ServingError("NOT_FOUND", NO_PLAYGROUND)
        return self.playground.headers, [self.playground.body]

    async def _read_body(self, scope, receive):
        # httptools has already checked that the header is a 64-bit number.
        length = int(dict(scope["headers"]).get(b"content-length", b"0"))
        if length > self.max_request_bytes:
            raise self._make_too_long_error()
        chunks, size, more = [], 0, True
        deadline = time.monotonic() + self.timeout
        while more:
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except TimeoutError:
                error = "The request's body did not arrive in time."
                raise ServingError("DEADLINE_EXCEEDED", error, http_status=408) from None
            if message["type"] == "http.disconnect":
                raise ServingError("CANCELLED", "The client went away.")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self.max_request_bytes:
                raise self._make_too_long_error()
            more = message.get("more_body", False)
        return b"".join(chunks)

    @contextlib.contextmanager
    def _admit(self):
        # The queue of the threads is unbounded, so requests that would wait there are refused.
        if self._num_active >= self._core.request_queue.capacity:
            raise ServingError("UNAVAILABLE", "Too many requests; try again later.")
        self._num_active += 1
        try:
            yield
        finally:
            self._num_active -= 1

    async def _run_in_thread(self, function, *arguments):
        with self._admit():
            # Do not bind the future to a local variable: an exception's traceback would then keep
            # the future, the exception and the request body alive.
            return await asyncio.wrap_future(self._threads.submit(function, *arguments))

    async def _send_events(self, events, scope, receive, send):
        """Sends the events of a generator; closes it when the client disconnects."""

        async def take_event():
            return await asyncio.wrap_future(self._threads.submit(next, events, None))

        disconnection = asyncio.ensure_future(receive())  # done once the connection is lost
        with self._admit(), contextlib.closing(events):
            try:
                event = await take_event()  # an error before the first event gets an HTTP status
                start = {"type": "http.response.start", "status": 200}
                await send(start | {"headers": list(_event_stream.HEADERS)})
                while event is not None and not disconnection.done():
                    if event:
                        message = {"type": "http.response.body", "body": event, "more_body": True}
                        await asyncio.wait_for(send(message), self.timeout)
                    event = await self._take_or_report(take_event)
                await send({"type": "http.response.body"})
            except TimeoutError:
                LOG.warning("A client did not read its events in %g s.", self.timeout)
                scope["extensions"]["abort"]()
            finally:
                disconnection.cancel()

    async def _take_or_report(self, take_event):
        """Returns the next event, or None at the end.

        If the search fails, returns an event that reports the error; the next call then returns
        None.
        """
        try:
            return await take_event()
        except ServingError as error:
            message = error.message
        except Exception:
            LOG.exception("A stream failed.")
            message = REQUEST_FAILED
        return _event_stream.make_event(_json_responses.dump_json({"error": message}))

    def _run_predict(self, model, version, label, body, deadline):
        with self._open_request(model, version, label, body, deadline) as request:
            return self._core.run(
                request.loaded, request.signature, request.inputs, (), deadline, request.writer
            )

    def _generate_events(self, model, version, label, body, deadline):
        with self._open_request(model, version, label, body, deadline, is_stream=True) as request:
            yield from _event_stream.generate_events(
                request.loaded,
                request.signature,
                request.inputs,
                request.steps,
                request.writer,
                self._core.request_queue,
                deadline,
            )

    @contextlib.contextmanager
    def _open_request(self, model, version, label, body, deadline, is_stream=False):
        """Parses a body; yields the `ParsedRequest` and keeps its version loaded meanwhile."""
        is_large, steps = len(body) > LARGE_REQUEST_BYTES, None
        try:
            with contextlib.ExitStack() as stack:
                slot = self._large_bodies.acquire_slot(deadline)
                with slot if is_large else contextlib.nullcontext():
                    document = _json_requests.parse(body, deadline)
                    signature = _json_requests.signature_name(document) or "serving_default"
                    # Keep this version from here on: a newer one may have different inputs.
                    _, loaded = stack.enter_context(self._core.acquire(model, version, label))
                    input_signature = signature
                    if is_stream:
                        input_signature = _event_stream.get_start_signature(loaded, signature)
                        steps = _event_stream.read_steps(document)
                    if input_signature not in loaded.signatures:
                        raise invalid_argument(
                            f'Serving signature name: "{signature}" not found in signature def'
                        )
                    infos = loaded.signatures[input_signature].inputs
                    max_rows = self._core.max_batch_size
                    inputs, is_row_format = _json_requests.parse_inputs(
                        document, infos, max_rows, deadline
                    )
                    del document
                writer = _json_responses.JsonWriter(is_row_format, self._core.max_response_bytes)
                yield ParsedRequest(loaded, signature, inputs, writer, steps)
        finally:
            if is_large:
                schedule_trim()

    def _get_metadata(self, model, version, label):
        found, signatures = self._core.metadata(model, version, label)
        options = {**JSON_OPTIONS, "preserving_proto_field_name": True}
        response = _status_and_metadata_responses.make_metadata_response(model, found, signatures)
        spec = json_format.MessageToDict(response.model_spec, **options)
        signature_map = _status_and_metadata_responses.make_signature_map(signatures)
        definitions = json_format.MessageToDict(signature_map, **options)
        document = {"model_spec": spec, "metadata": {"signature_def": definitions}}
        return json.dumps(document, indent=1).encode()

    def _get_status(self, model, version):
        message = _status_and_metadata_responses.make_status_response(
            self._core.states(model, version)
        )
        return json_format.MessageToJson(message, indent=1, **JSON_OPTIONS).encode()

    def _make_too_long_error(self):
        return ServingError(
            "RESOURCE_EXHAUSTED",
            f"A request may have up to {self.max_request_bytes:,} bytes.",
            http_status=413,
        )


class RestServer:
    """Runs uvicorn in a thread, on a port that is bound before it starts.

    Args:
        application: A `RestApplication`.
        host: Address to listen on.
        port: Port, 0 for a free one.

    Attributes:
        address: The address that it listens on, without the port.

    Raises:
        OSError: If the address is not available.
    """

    def __init__(self, application: RestApplication, host: str, port: int):
        try:
            import uvicorn

            from keras_attention.export.serving._bounded_uvicorn_protocol import BoundedProtocol
        except ImportError as error:
            raise missing_package_error(error.name or "uvicorn") from None
        self._socket = _listening_socket.listen("REST", host, port)
        self.address, self.port = self._socket.getsockname()[:2]
        self._application = application
        config = uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=functools.partial(
                BoundedProtocol,
                max_request_bytes=application.max_request_bytes,
                body_seconds=application.timeout,
            ),
            interface="asgi3",
            proxy_headers=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        run = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def stop(self) -> None:
        """Finishes the current requests, for a few seconds at most, and ends."""
        self._server.should_exit = True
        self._thread.join(2 * GRACE_SECONDS)
        self._socket.close()
        self._application.close()


def _get_path(scope):
    path = scope.get("raw_path") or scope["path"].encode()
    return path.partition(b"?")[0].decode("latin-1")


def _is_root(scope):
    return scope["method"] == "GET" and _get_path(scope) == "/"


def _parse_version(text):
    if text is None:
        return None
    version = parse_int(text)
    if version is None:
        raise invalid_argument(f"Failed to convert version: {text} to numeric.")
    return version
