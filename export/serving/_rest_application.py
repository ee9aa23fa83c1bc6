"""The REST server: TensorFlow Serving's routes as an ASGI application, run by uvicorn."""

import asyncio
import concurrent.futures
import contextlib
import functools
import json
import logging
import re
import threading
import time
import urllib.parse

from google.protobuf import json_format

from keras_attention.export.serving import (
    _event_stream,
    _json_requests,
    _json_responses,
    _listening_socket,
    _response_messages,
)
from keras_attention.export.serving._allocator import schedule_trim
from keras_attention.export.serving._request_handler import LARGE_RESPONSE_BYTES, compute_deadline
from keras_attention.export.serving._request_queue import RequestQueue
from keras_attention.export.serving.errors import (
    ServingError,
    invalid_argument,
    missing_package_error,
)

_MODEL = r"/v1/models/([^/:]+)(?:/versions/([0-9]+)|/labels/([^/:]+))?"
PREDICT = re.compile(_MODEL + r":(predict|classify|regress|stream)", re.IGNORECASE)
STATUS = re.compile(_MODEL + r"(/metadata)?", re.IGNORECASE)
JSON_OPTIONS = {"always_print_fields_with_no_presence": True}
LOG = logging.getLogger(__name__)
GRACE_SECONDS = 5
LARGE_REQUEST_BYTES = 2**20  # bytes, more of which are read one body at a time
JSON_HEADERS = [(b"content-type", b"application/json")]
NO_PAGE = "There is no page to try the models here; see --playground of the server."


class RestApplication:
    """The ASGI application.

    Args:
        service: A `RequestHandler`.
        max_request_bytes: Maximum size of a body; a larger one gets the status 413.
        seconds: Time limit for reading a body, and for the response.

    Attributes:
        playground: The `Playground` at `/`, or None.
    """

    def __init__(self, service, max_request_bytes: int, seconds: float = 30.0):
        self._service, self.playground = service, None
        self.max_request_bytes, self.seconds = max_request_bytes, seconds
        self._threads = concurrent.futures.ThreadPoolExecutor(
            service.request_queue.capacity, thread_name_prefix="rest"
        )
        self._num_active = 0
        # The values of a body take thirty times its bytes, and Python reads one at a time anyway.
        self._large_bodies = RequestQueue(1, service.request_queue.capacity)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            raise ValueError(f"RestApplication serves HTTP only. Received: {scope['type']}")
        headers = JSON_HEADERS
        try:
            status, body = 200, await self._handle_request(scope, receive, send)
            if body is None:  # it has been sent
                return
            if body is self.playground:
                headers, body = body.headers, [body.body]
        except ServingError as error:
            status, body = error.http_status, [_json_responses.dump_json({"error": error.message})]
        except Exception:
            LOG.exception("A request failed.")
            status, body = 500, [b'{"error": "The request failed; see the server\'s log."}']
        size = sum(map(len, body))
        headers = [*headers, (b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        try:
            await self._send(body, send)
        except TimeoutError:
            LOG.warning("A client did not read its response in %g s.", self.seconds)
            scope["extensions"]["abort"]()
            await asyncio.sleep(0)  # lets the loop register that the connection is lost
        if size > LARGE_RESPONSE_BYTES:
            schedule_trim()

    async def _send(self, pieces, send):
        """Sends a body in pieces, frees each piece, and raises `TimeoutError` for slow clients."""
        pieces.reverse()
        deadline = time.monotonic() + self.seconds
        while pieces:
            piece = pieces.pop()
            message = {"type": "http.response.body", "body": piece, "more_body": bool(pieces)}
            await asyncio.wait_for(send(message), deadline - time.monotonic())

    def close(self) -> None:
        """Ends the threads after their current requests."""
        self._threads.shutdown()

    async def _handle_request(self, scope, receive, send):
        """Returns the pieces of a response, the page to try the models, or None if it was sent."""
        method, path = scope["method"], scope.get("raw_path") or scope["path"].encode()
        path = path.partition(b"?")[0].decode("latin-1")
        if not path.lower().startswith("/v1/"):
            if (method, path) != ("GET", "/"):
                raise ServingError("NOT_FOUND", f"Not found: {method} {path}")
            if self.playground is None:
                raise ServingError("NOT_FOUND", NO_PAGE)
            return self.playground
        pattern = {"POST": PREDICT, "GET": STATUS}.get(method)
        found = pattern and pattern.fullmatch(path)
        if not found:
            raise invalid_argument(f"Malformed request: {method} {path}")
        model = urllib.parse.unquote(found[1])
        version = _parse_version(found[2])
        label = urllib.parse.unquote(found[3]) if found[3] else None
        if method == "POST":
            verb = found[4].lower()
            if verb not in ("predict", "stream"):
                raise ServingError("UNIMPLEMENTED", f"{found[4]} is not served here, only predict.")
            body = await self._read_body(scope, receive)
            deadline = compute_deadline(self.seconds)
            if verb == "stream":
                events = self._generate_events(model, version, label, body, deadline)
                return await self._send_events(events, scope, receive, send)
            return await self._run_in_thread(
                self._run_predict, model, version, label, body, deadline
            )
        if found[4]:
            return [self._get_metadata(model, version, label)]
        return [self._get_status(model, version)]

    async def _read_body(self, scope, receive):
        # httptools has seen that it is a number of 64 bits.
        length = int(dict(scope["headers"]).get(b"content-length", b"0"))
        if length > self.max_request_bytes:
            raise self._make_too_long_error()
        chunks, size, more = [], 0, True
        deadline = time.monotonic() + self.seconds
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
        if self._num_active >= self._service.request_queue.capacity:
            raise ServingError("UNAVAILABLE", "Too many requests; try again later.")
        self._num_active += 1
        try:
            yield
        finally:
            self._num_active -= 1

    async def _run_in_thread(self, function, *arguments):
        with self._admit():
            # Without a name: an error would hold the future and so itself, and what it was about.
            return await asyncio.wrap_future(self._threads.submit(function, *arguments))

    async def _send_events(self, events, scope, receive, send):
        """Sends the events of a generator; ends it where the client goes away."""

        async def take_event():
            return await asyncio.wrap_future(self._threads.submit(next, events, None))

        is_gone = asyncio.ensure_future(receive())  # arrives once the connection is lost
        with self._admit(), contextlib.closing(events):
            try:
                event = await take_event()  # an error before the first event has a status
                start = {"type": "http.response.start", "status": 200}
                await send(start | {"headers": list(_event_stream.HEADERS)})
                while event is not None and not is_gone.done():
                    if event:
                        message = {"type": "http.response.body", "body": event, "more_body": True}
                        await asyncio.wait_for(send(message), self.seconds)
                    event = await self._take_or_report(take_event)
                await send({"type": "http.response.body"})
            except TimeoutError:
                LOG.warning("A client did not read its events in %g s.", self.seconds)
                scope["extensions"]["abort"]()
            finally:
                is_gone.cancel()

    async def _take_or_report(self, take_event):
        """Returns the next event, the last one if it reports an error."""
        try:
            return await take_event()
        except ServingError as error:
            message = error.message
        except Exception:
            LOG.exception("A stream failed.")
            message = "The request failed; see the server's log."
        return _event_stream.make_event(_json_responses.dump_json({"error": message}))

    def _run_predict(self, model, version, label, body, deadline):
        with self._open_request(model, version, label, body, deadline) as request:
            loaded, signature, inputs, writer, _ = request
            return self._service.run(loaded, signature, inputs, (), deadline, writer)

    def _generate_events(self, model, version, label, body, deadline):
        find = _event_stream.find_streamed_signature
        with self._open_request(model, version, label, body, deadline, find) as request:
            loaded, signature, inputs, writer, steps = request
            yield from _event_stream.generate_events(
                loaded, signature, inputs, steps, writer, self._service.request_queue, deadline
            )

    @contextlib.contextmanager
    def _open_request(self, model, version, label, body, deadline, find_streamed=None):
        """Yields the loaded version, signature, inputs, writer and steps of a request."""
        is_large, steps = len(body) > LARGE_REQUEST_BYTES, None
        try:
            with contextlib.ExitStack() as stack:
                turn = self._large_bodies.acquire_slot(deadline)
                with turn if is_large else contextlib.nullcontext():
                    document = _json_requests.parse(body, deadline)
                    signature = _json_requests.signature_name(document) or "serving_default"
                    # Held from here on: a version that comes up meanwhile may have other inputs.
                    _, loaded = stack.enter_context(self._service.acquire(model, version, label))
                    first = signature
                    if find_streamed is not None:
                        first = find_streamed(loaded, signature)
                        steps = _event_stream.read_steps(document)
                    if first not in loaded.signatures:
                        raise invalid_argument(
                            f'Serving signature name: "{signature}" not found in signature def'
                        )
                    infos = loaded.signatures[first].inputs
                    max_rows = self._service.max_batch_size
                    inputs, rows = _json_requests.parse_inputs(document, infos, max_rows, deadline)
                    del document
                writer = _json_responses.JsonWriter(rows, self._service.max_response_bytes)
                yield loaded, signature, inputs, writer, steps
        finally:
            if is_large:
                schedule_trim()

    def _get_metadata(self, model, version, label):
        found, signatures = self._service.metadata(model, version, label)
        options = {**JSON_OPTIONS, "preserving_proto_field_name": True}
        response = _response_messages.make_metadata_response(model, found, signatures)
        spec = json_format.MessageToDict(response.model_spec, **options)
        signature_map = _response_messages.make_signature_map(signatures)
        definitions = json_format.MessageToDict(signature_map, **options)
        document = {"model_spec": spec, "metadata": {"signature_def": definitions}}
        return json.dumps(document, indent=1).encode()

    def _get_status(self, model, version):
        message = _response_messages.make_status_response(self._service.states(model, version))
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
                body_seconds=application.seconds,
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


def _parse_version(text):
    if text is None:
        return None
    if int(text[:20]) >= 2**63 or len(text) > 19:
        raise invalid_argument(f"Failed to convert version: {text} to numeric.")
    return int(text)
