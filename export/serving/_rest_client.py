"""The REST calls of `Client`: JSON over HTTP."""

import base64
import contextlib
import http.client
import json
import threading
import time
import urllib.parse
import weakref

import numpy as np
import tensorflow as tf

from keras_attention.export.serving.errors import HTTP_STATUS, ServingError

#: Maximum number of bytes of one read of a response.
READ_BYTES = 1 << 16


class RestClient:
    """Sends JSON over HTTP/1.1, with one persistent connection for each thread.

    Args:
        target: `"host:port"`.
        max_message_bytes: Maximum size of a body in either direction.
    """

    def __init__(self, target: str, max_message_bytes: int):
        self._target, self._max_bytes = target, max_message_bytes
        self._local = threading.local()
        self._connections, self._lock = weakref.WeakSet(), threading.Lock()

    def predict(self, client, signature, arrays, output_filter, definition, seconds):
        """Returns a dict of arrays, with strings as bytes."""
        extra = sorted(set(arrays) - set(definition.inputs))  # a server ignores them
        if extra:
            message = f"input size does not match signature. Sent extra: {{{','.join(extra)}}}."
            raise ServingError("INVALID_ARGUMENT", message)
        values = {name: _make_json_value(array) for name, array in arrays.items()}
        body = {"signature_name": signature, "inputs": values}
        answer = self._call("POST", f"{_make_path(client)}:predict", seconds, body)
        with self._reject_malformed("outputs"):
            answer = answer["outputs"]
        if not isinstance(answer, dict) and len(definition.outputs) == 1:
            answer = {next(iter(definition.outputs)): answer}
        if not isinstance(answer, dict) or set(answer) != set(definition.outputs):
            raise _make_mismatch_error(signature)
        unknown = sorted(set(output_filter) - set(answer))
        if unknown:
            message = f"output tensor alias not found in signature: {unknown[0]}"
            raise ServingError("INVALID_ARGUMENT", message)
        try:
            return {
                name: _parse_output(name, value, definition.outputs[name])
                for name, value in answer.items()
                if not output_filter or name in output_filter
            }
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise _make_mismatch_error(signature) from None

    def stream(self, client, signature, text, seconds):
        """Yields the events of the development server for one text; ends its search if closed."""
        body = {"signature_name": signature, "instances": [text]}
        deadline = time.monotonic() + seconds
        connection = http.client.HTTPConnection(self._target, timeout=seconds)
        with contextlib.closing(connection):
            try:
                connection.request("POST", f"{_make_path(client)}:stream", json.dumps(body))
                response = connection.getresponse()
                if response.status != 200:
                    raise _parse_error(response.status, response.read(self._max_bytes))
                while line := response.readline(self._max_bytes):
                    if line.startswith(b"data: "):
                        with self._reject_malformed("events"):
                            yield json.loads(line.removeprefix(b"data: "))
                    _seconds_left(deadline)
            except TimeoutError:
                raise ServingError("DEADLINE_EXCEEDED", "No answer in time.") from None
            except (OSError, http.client.HTTPException) as error:
                message = f"{self._target}: {error or type(error).__name__}"
                raise ServingError("UNAVAILABLE", message) from None

    def signatures(self, client, seconds):
        """Returns the `SignatureDef`s by name."""
        from google.protobuf import json_format
        from tensorflow.core.protobuf import meta_graph_pb2

        found = self._call("GET", f"{_make_path(client)}/metadata", seconds)
        with self._reject_malformed("metadata"):
            definitions = found["metadata"]["signature_def"]["signature_def"]
            return {
                name: json_format.ParseDict(definition, meta_graph_pb2.SignatureDef())
                for name, definition in definitions.items()
            }

    def status(self, client, seconds):
        """Returns the states by version."""
        found = self._call("GET", _make_path(client), seconds)
        with self._reject_malformed("model_version_status"):
            states = found["model_version_status"]
            return {int(entry["version"]): entry["state"] for entry in states}

    def close(self):
        """Closes the connections of all threads."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def _call(self, method, path, seconds, body=None):
        content = None if body is None else json.dumps(body).encode()
        self._check_size("Sent", len(content or b""))
        deadline = time.monotonic() + seconds
        reused = getattr(self._local, "connection", None)
        try:
            status, answer = self._exchange(method, path, deadline, content)
        except TimeoutError:
            self._drop_connection()
            raise ServingError("DEADLINE_EXCEEDED", "No answer in time.") from None
        except (OSError, http.client.HTTPException) as error:
            self._drop_connection()
            if reused is not None:  # the server may have closed the persistent connection
                return self._call(method, path, deadline - time.monotonic(), body)
            message = f"{self._target}: {error or type(error).__name__}"
            raise ServingError("UNAVAILABLE", message) from None
        except ServingError:
            self._drop_connection()
            raise
        if status != 200:
            raise _parse_error(status, answer)
        with self._reject_malformed("JSON"):
            return json.loads(answer)

    @contextlib.contextmanager
    def _reject_malformed(self, what):
        """Converts parse errors to the error of a server that is not a model server."""
        from google.protobuf import json_format

        wrong = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
        try:
            yield
        except (*wrong, json_format.ParseError):
            message = f"{self._target} does not respond as a model server: expected {what}."
            raise ServingError("INTERNAL", message) from None

    def _exchange(self, method, path, deadline, content):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = _ThreadConnection(self._target)
            self._local.connection = connection
            with self._lock:
                self._connections.add(connection)
        connection.timeout = _seconds_left(deadline)
        if connection.sock is None:
            connection.connect()
        sock = connection.sock  # after the last response, only the response holds it
        sock.settimeout(_seconds_left(deadline))
        # A server may refuse a long body and end the connection before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, content, {"Content-Type": "application/json"})
        sock.settimeout(_seconds_left(deadline))
        response = connection.getresponse()
        self._check_size("Received", response.length or 0)
        parts, size = [], 0
        # A socket's timeout applies to each read, and a slow response has many.
        while part := response.read1(READ_BYTES):
            parts.append(part)
            size += len(part)
            self._check_size("Received", size)
            sock.settimeout(_seconds_left(deadline))
        answer, missing = b"".join(parts), response.length
        response.close()  # the next request may use the connection
        if missing:
            raise http.client.IncompleteRead(answer, missing)
        return response.status, answer

    def _check_size(self, what, size):
        if size > self._max_bytes:
            message = f"{what} message larger than max ({size} vs. {self._max_bytes})"
            raise ServingError("RESOURCE_EXHAUSTED", message, http_status=413)

    def _drop_connection(self):
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()
            with self._lock:
                self._connections.discard(connection)


class _ThreadConnection(http.client.HTTPConnection):
    """A connection that is closed when the thread that holds it ends."""

    def __del__(self):
        self.close()


def _seconds_left(deadline):
    """Returns the seconds until `deadline`; raises `TimeoutError` if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _make_path(client):
    path = f"/v1/models/{urllib.parse.quote(client.model, safe='')}"
    if client.version is not None:
        return f"{path}/versions/{client.version}"
    if client.label is not None:
        return f"{path}/labels/{urllib.parse.quote(client.label, safe='')}"
    return path


def _make_json_value(array):
    if array.dtype.kind not in "OSU":
        return array.tolist()
    flat = np.empty(array.size, dtype=object)
    flat[:] = [_make_json_string(text) for text in array.ravel()]
    return flat.reshape(array.shape).tolist()


def _make_json_string(text):
    if isinstance(text, bytes):
        return {"b64": base64.b64encode(text).decode()}
    return text


def _parse_output(name, value, info):
    dtype = tf.as_dtype(info.dtype)
    if dtype.is_integer and np.asarray(value).dtype.kind == "f" and np.size(value):
        raise ValueError("expected integers")
    array = np.array(value, dtype=object if dtype == tf.string else dtype.as_numpy_dtype)
    if dtype != tf.string:
        return array
    if name.endswith("_bytes"):
        flat = [base64.b64decode(text["b64"]) for text in array.ravel()]
    else:
        flat = [text.encode("utf-8", "surrogatepass") for text in array.ravel()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(array.shape)


def _make_mismatch_error(signature):
    message = f'The outputs do not match the metadata of signature "{signature}".'
    return ServingError("INTERNAL", message)


def _parse_error(status, answer):
    try:
        message = str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        message = answer[:200].decode("utf-8", "replace")
    codes = {number: name for name, number in reversed(HTTP_STATUS.items())}
    code = {413: "RESOURCE_EXHAUSTED", 408: "DEADLINE_EXCEEDED"}.get(status)
    return ServingError(code or codes.get(status, "UNKNOWN"), message, http_status=status)
