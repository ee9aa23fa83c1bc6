"""A client of the TensorFlow model server, or of `keras_attention.export.serve`."""

import random
import time

import numpy as np

from keras_attention import checks
from keras_attention.export.argument_types import LONGEST_SECONDS
from keras_attention.export.serving.errors import ServingError
from keras_attention.export.serving.grpc_transport import GrpcTransport
from keras_attention.export.serving.rest_transport import RestTransport
from keras_attention.export.serving.service import DEFAULT_MODEL

MAX_MESSAGE_BYTES = 2**30
MOST_MESSAGE_BYTES = 2**31 - 1  # gRPC keeps it as an int32
LONGEST_PAUSE = 5.0


class Client:
    """Asks a served model; safe to use from many threads.

    A call that finds the server away or busy (UNAVAILABLE, over REST 503) is repeated after a
    pause that doubles and is drawn at random, as long as its deadline allows; every other
    error is raised at once. Use it as a context manager, or `close` it.

    Args:
        url: `"grpc://host:port"` (the model server's 8500) or `"http://host:port"` (8501).
        model: Name of the model; by default what the stock server's image calls the one it serves.
        version: The version to ask, None for the newest.
        label: A version label instead of a version.
        timeout: Seconds a call may take, its repetitions and questions for metadata included; an
            hour at most.
        retries: How often a call is repeated at most.
        backoff: Seconds before the first repetition, about.
        max_message_bytes: Longest request that is sent, and longest answer that is read; what
            is longer is RESOURCE_EXHAUSTED. Alignments soon pass the 4 MiB of gRPC's own limit.

    Raises:
        ImportError: If `url` is gRPC and tensorflow-serving-api is not installed.
        ValueError: If an argument is out of range.

    Example, with a server on this machine:

        with Client("http://localhost:8501", model="de-en") as client:
            for text, score in client.translate(["ein Mann läuft"])[0]:
                print(score, text)
    """

    def __init__(
        self,
        url: str,
        model: str = DEFAULT_MODEL,
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 30.0,
        retries: int = 4,
        backoff: float = 0.1,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ):
        for name, value in (("url", url), ("model", model)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"Client expects `{name}` to be a str. Received: {name}={value!r}")
        if version is not None and label is not None:
            raise ValueError(
                "Client expects a `version` or a `label`, not both. "
                f"Received: version={version}, label={label!r}"
            )
        if version is not None:
            checks.int_at_least("Client", "version", version, 0)
        if label is not None and not isinstance(label, str):
            raise ValueError(f"Client expects `label` to be a str. Received: label={label!r}")
        checks.number_in_range("Client", "timeout", timeout, 0, LONGEST_SECONDS, above=True)
        checks.int_at_least("Client", "retries", retries, 0)
        checks.number_in_range("Client", "backoff", backoff, 0, LONGEST_SECONDS)
        whole = isinstance(max_message_bytes, int) and not isinstance(max_message_bytes, bool)
        if not whole or not 0 < max_message_bytes <= MOST_MESSAGE_BYTES:
            raise ValueError(
                f"Client expects `max_message_bytes` to be an int of 1 to {MOST_MESSAGE_BYTES}. "
                f"Received: max_message_bytes={max_message_bytes!r}"
            )
        self.url, self.model, self.version, self.label = url, model, version, label
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._transport = _transport(url, max_message_bytes)
        self._known = None
        self._closed = False

    def predict(
        self, signature: str = "serving_default", *, output_filter=(), **inputs
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature.

        Args:
            signature: Its name.
            output_filter: Names of the outputs wanted, all if empty. Over gRPC the others are
                not computed; REST has no filter, and they are dropped on arrival.
            **inputs: Arrays or nested lists, of str or bytes for strings; numbers are cast to
                what the signature takes.

        Returns:
            Dict of arrays. Strings are `str`, in an output named `*_bytes` they are `bytes`.

        Raises:
            ServingError: If the server says so, cannot be reached or is too slow.
            ValueError: If an input cannot be what the signature takes, or the client is closed.
        """
        if isinstance(output_filter, str):
            raise ValueError(
                "predict expects `output_filter` to be a list of names. "
                f"Received: output_filter={output_filter!r}"
            )
        until = self._until()
        definition = self._definition(signature, until)
        try:
            return self._predicted(signature, definition, inputs, output_filter, until)
        except ServingError as error:
            # Where a new version has other inputs or outputs, what was known of the old is wrong.
            if error.code not in ("INVALID_ARGUMENT", "INTERNAL"):
                raise
            self._refresh(until)
            newest = self._definition(signature, until)
            if newest == definition:
                raise
        return self._predicted(signature, newest, inputs, output_filter, until)

    def translate(self, texts: list[str]) -> list[list[tuple[str, float]]]:
        """Returns for every text its translations and their scores, best first.

        It asks `serving_default`, the n-best lists of an exported translator. Fillers, where
        fewer hypotheses exist than the beam is wide, are left out.
        """
        if isinstance(texts, (str, bytes)):
            raise ValueError(f"translate expects a list of texts. Received: {texts!r}")
        if not len(texts):
            return []
        found = self.predict(text=texts)
        return [
            [(text, float(score)) for text, score in zip(*row, strict=True) if score > -1e9]
            for row in zip(found["text"], found["score"], strict=True)
        ]

    def signatures(self) -> dict:
        """Returns the model's `SignatureDef` messages by name, as the server tells them."""
        return self._refresh(self._until())

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{3: "AVAILABLE", 2: "END"}`."""
        return self._repeated(lambda seconds: self._transport.status(self, seconds), self._until())

    def close(self) -> None:
        """Closes the connections; the client answers no more."""
        self._closed = True
        self._transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _until(self):
        return time.monotonic() + self._timeout

    def _refresh(self, until):
        self._known = self._repeated(
            lambda seconds: self._transport.signatures(self, seconds), until
        )
        return self._known

    def _predicted(self, signature, definition, inputs, output_filter, until):
        arrays = {
            name: _array(value, definition.inputs.get(name)) for name, value in inputs.items()
        }

        def call(seconds):
            return self._transport.predict(
                self, signature, arrays, tuple(output_filter), definition, seconds
            )

        outputs = self._repeated(call, until)
        return {name: _readable(name, array) for name, array in outputs.items()}

    def _definition(self, signature, until):
        if self._known is None or signature not in self._known:
            self._refresh(until)
        if signature not in self._known:
            known = ", ".join(sorted(self._known))
            message = f'There is no signature "{signature}". There are: {known}'
            raise ServingError("FAILED_PRECONDITION", message)
        return self._known[signature]

    def _repeated(self, call, until):
        """What `call(seconds left)` returns, after as many attempts as it takes and may."""
        if self._closed:
            raise ValueError(f"The client of {self.url} is closed. Make another one.")
        for attempt in range(self._retries + 1):
            try:
                return call(max(until - time.monotonic(), 1e-3))
            except ServingError as error:
                pause = min(self._backoff * 2**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1.5)
                retriable = error.code == "UNAVAILABLE" and attempt < self._retries
                if not retriable or time.monotonic() + pause >= until:
                    raise
            time.sleep(pause)


def _transport(url, max_message_bytes):
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if scheme not in ("grpc", "http") or not host or path:
        raise ValueError(
            'Client expects `url` to be "grpc://host:port" or "http://host:port". '
            f"Received: url={url!r}"
        )
    if scheme == "grpc":
        return GrpcTransport(host, max_message_bytes)
    return RestTransport(host, max_message_bytes)


def _array(value, info):
    import tensorflow as tf

    dtype = None if info is None else tf.as_dtype(info.dtype)
    if dtype == tf.string:
        strings = np.asarray(value, dtype=object)
        if not all(isinstance(text, (str, bytes)) for text in strings.ravel()):
            raise ValueError(f"An input is expected to hold str or bytes. Received: {value!r}")
        if not all(_is_unicode(text) for text in strings.ravel()):
            raise ValueError(
                "An input is expected to hold Unicode text, without halves of surrogate pairs. "
                f"Received: {value!r}"
            )
        return strings
    array = np.asarray(value)
    if dtype is None or array.dtype.kind in "OSU":
        return array
    with np.errstate(invalid="ignore"):
        cast = array.astype(dtype.as_numpy_dtype)
    if cast.dtype.kind in "biu" and not np.array_equal(array, cast):
        raise ValueError(f"An input is expected to hold {dtype.name}. Received: {value!r}")
    return cast


def _is_unicode(text):
    """Whether UTF-8 can write a text; bytes are the server's to judge."""
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _readable(name, array):
    if array.dtype.kind != "O" or name.endswith("_bytes"):
        return array
    flat = [text.decode("utf-8", "replace") for text in array.ravel()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(array.shape)
