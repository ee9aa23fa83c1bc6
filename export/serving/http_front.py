"""The REST side: the model server's routes as an ASGI application, run by uvicorn."""

import asyncio
import concurrent.futures
import json
import logging
import re
import threading
import time
import urllib.parse

from google.protobuf import json_format

from keras_attention.export.serving import addresses, json_requests, json_responses, messages
from keras_attention.export.serving.allocator import trim_soon
from keras_attention.export.serving.errors import ServingError, invalid, missing_package
from keras_attention.export.serving.service import LARGE_ANSWER, deadline_in

_MODEL = r"/v1/models/([^/:]+)(?:/versions/([0-9]+)|/labels/([^/:]+))?"
PREDICT = re.compile(_MODEL + r":(predict|classify|regress)", re.IGNORECASE)
STATUS = re.compile(_MODEL + r"(/metadata)?", re.IGNORECASE)
JSON_OPTIONS = {"always_print_fields_with_no_presence": True}
LOG = logging.getLogger(__name__)
GRACE_SECONDS = 5


class Application:
    """The ASGI application.

    Args:
        service: A `Service`.
        max_request_bytes: Longest body that is read; a longer one is answered with 413.
        seconds: How long reading a body may take, and how long answering it.
    """

    def __init__(self, service, max_request_bytes: int, seconds: float = 30.0):
        self._service, self._max_bytes, self._seconds = service, max_request_bytes, seconds
        self._threads = concurrent.futures.ThreadPoolExecutor(
            service.admission.capacity, thread_name_prefix="rest"
        )
        self._under_way = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            raise ValueError(f"Application answers HTTP only. Received: {scope['type']}")
        try:
            status, body = 200, await self._answer(scope, receive)
        except ServingError as error:
            status, body = error.http_status, [json_responses.dumped({"error": error.message})]
        except Exception:
            LOG.exception("A request failed.")
            status, body = 500, [b'{"error": "The request failed; the server\'s log says why."}']
        size = sum(map(len, body))
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", str(size).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        try:
            await self._send(body, send)
        except TimeoutError:
            LOG.warning("A client did not read its answer in %g s.", self._seconds)
            scope["extensions"]["abort"]()
            await asyncio.sleep(0)  # until the connection is known to be lost
        if size > LARGE_ANSWER:
            trim_soon()

    async def _send(self, pieces, send):
        """Sends a body piece by piece, each freed with that; a client has so long to read it."""
        pieces.reverse()
        until = time.monotonic() + self._seconds
        while pieces:
            piece = pieces.pop()
            message = {"type": "http.response.body", "body": piece, "more_body": bool(pieces)}
            await asyncio.wait_for(send(message), until - time.monotonic())

    def close(self) -> None:
        """Ends the threads after the requests they are at."""
        self._threads.shutdown()

    async def _answer(self, scope, receive):
        method, path = scope["method"], scope.get("raw_path") or scope["path"].encode()
        path = path.partition(b"?")[0].decode("latin-1")
        if not path.lower().startswith("/v1/"):
            raise ServingError("NOT_FOUND", f"Not found: {method} {path}")
        pattern = {"POST": PREDICT, "GET": STATUS}.get(method)
        found = pattern and pattern.fullmatch(path)
        if not found:
            raise invalid(f"Malformed request: {method} {path}")
        model = urllib.parse.unquote(found[1])
        version = _version(found[2])
        label = urllib.parse.unquote(found[3]) if found[3] else None
        if method == "POST":
            if found[4].lower() != "predict":
                raise ServingError("UNIMPLEMENTED", f"{found[4]} is not served here, only predict.")
            body = await self._body(scope, receive)
            deadline = deadline_in(self._seconds)
            return await self._in_thread(self._predict, model, version, label, body, deadline)
        if found[4]:
            return [self._metadata(model, version, label)]
        return [self._status(model, version)]

    async def _body(self, scope, receive):
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if int(length) > self._max_bytes:  # httptools has seen that it is a number of 64 bits
            raise self._too_long()
        chunks, size, more = [], 0, True
        until = time.monotonic() + self._seconds
        while more:
            try:
                message = await asyncio.wait_for(receive(), until - time.monotonic())
            except TimeoutError:
                error = "The request's body did not arrive in time."
                raise ServingError("DEADLINE_EXCEEDED", error, http_status=408) from None
            if message["type"] == "http.disconnect":
                raise ServingError("CANCELLED", "The client went away.")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._max_bytes:
                raise self._too_long()
            more = message.get("more_body", False)
        return b"".join(chunks)

    async def _in_thread(self, function, *arguments):
        # The threads' own queue has no bound: what would wait there is refused here.
        if self._under_way >= self._service.admission.capacity:
            raise ServingError("UNAVAILABLE", "Too many requests; try again later.")
        self._under_way += 1
        try:
            future = self._threads.submit(function, *arguments)
            return await asyncio.wrap_future(future)
        finally:
            self._under_way -= 1

    def _predict(self, model, version, label, body, deadline):
        document = json_requests.parse(body)
        signature = json_requests.signature_name(document) or "serving_default"
        # Held from here on: a version that comes up meanwhile may have other inputs.
        with self._service.acquire(model, version, label) as (_, loaded):
            if signature not in loaded.signatures:
                raise invalid(f'Serving signature name: "{signature}" not found in signature def')
            infos = loaded.signatures[signature].inputs
            inputs, rows = json_requests.inputs_of(document, infos)
            writer = json_responses.JsonWriter(rows, self._service.max_response_bytes)
            return self._service.run(loaded, signature, inputs, (), deadline, writer)

    def _metadata(self, model, version, label):
        found, signatures = self._service.metadata(model, version, label)
        options = {**JSON_OPTIONS, "preserving_proto_field_name": True}
        response = messages.metadata_message(model, found, signatures)
        spec = json_format.MessageToDict(response.model_spec, **options)
        signature_map = messages.signature_message(signatures)
        definitions = json_format.MessageToDict(signature_map, **options)
        answer = {"model_spec": spec, "metadata": {"signature_def": definitions}}
        return json.dumps(answer, indent=1).encode()

    def _status(self, model, version):
        message = messages.status_message(self._service.states(model, version))
        return json_format.MessageToJson(message, indent=1, **JSON_OPTIONS).encode()

    def _too_long(self):
        return ServingError(
            "RESOURCE_EXHAUSTED",
            f"A request may have up to {self._max_bytes:,} bytes.",
            http_status=413,
        )


class HttpServer:
    """uvicorn in a thread of its own, on a port that is bound before it starts.

    Args:
        application: An `Application`.
        host: Address to listen on.
        port: Port, 0 for a free one.

    Raises:
        OSError: If it cannot listen there.
    """

    def __init__(self, application: Application, host: str, port: int):
        try:
            import uvicorn

            from keras_attention.export.serving.http_protocol import BoundedProtocol
        except ImportError as error:
            raise missing_package(error.name or "uvicorn") from None
        self._socket = addresses.listen("REST", host, port)
        self.port = self._socket.getsockname()[1]
        self._application = application
        config = uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=BoundedProtocol,
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
        """Answers what is under way, for a few seconds at most, and ends."""
        self._server.should_exit = True
        self._thread.join(2 * GRACE_SECONDS)
        self._socket.close()
        self._application.close()


def _version(text):
    if text is None:
        return None
    if int(text[:20]) >= 2**63 or len(text) > 19:
        raise invalid(f"Failed to convert version: {text} to numeric.")
    return int(text)
