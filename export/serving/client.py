"""`Client`: sends requests to TensorFlow Serving or to `keras_attention.export.serve`."""

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from keras_attention import validation
from keras_attention.export._argparse_types import MAX_SECONDS
from keras_attention.export.serving._grpc_client import GrpcClient
from keras_attention.export.serving._rest_client import RestClient
from keras_attention.export.serving._server_core import DEFAULT_MODEL
from keras_attention.export.serving.errors import ServingError

if TYPE_CHECKING:
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

MAX_MESSAGE_BYTES = 2**30
GRPC_MAX_MESSAGE_BYTES = 2**31 - 1  # gRPC keeps it as an int32
MAX_PAUSE_SECONDS = 5.0


class Client:
    """Sends requests to a served model; safe to use from many threads.

    If the server is unavailable or busy (UNAVAILABLE, 503 over REST), the client retries with
    exponential backoff and random jitter, by default for about 1.5 seconds, never beyond the
    deadline. It raises all other errors at once.
    Use it as a context manager, or `close` it.

    Args:
        url: `"grpc://host:port"` (default port of TensorFlow Serving: 8500) or
            `"http://host:port"` (8501).
        model: Name of the model; the default is that of TensorFlow Serving's Docker image.
        version: Number of the version, or None for the latest.
        label: A version label instead of a version.
        timeout: Time limit of a call in seconds, including retries and requests for metadata; at
            most an hour.
        retries: Maximum number of retries of a call; None for as many as the deadline allows,
            such as while a server starts.
        backoff: Approximate pause before the first retry, in seconds.
        max_message_bytes: Maximum size of a request and of a response; a larger one raises
            RESOURCE_EXHAUSTED. Alignments easily exceed gRPC's default of 4 MiB.

    Raises:
        ImportError: If `url` is gRPC and tensorflow-serving-api is not installed.
        ValueError: If an argument is out of range.

    Example, with a server on this machine:

        with Client("http://localhost:8501", model="de-en") as client:
            for text, score in client.translate(["ein Mann läuft"])[0]:
                print(score, text)
    """

    url: str
    model: str
    version: int | None
    label: str | None

    def __init__(
        self,
        url: str,
        model: str = DEFAULT_MODEL,
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 30.0,
        retries: int | None = 4,
        backoff: float = 0.1,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        for name, value in (("url", url), ("model", model)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"Client expects `{name}` to be a str. Received: {name}={value!r}")
        if version is not None and label is not None:
            raise ValueError(
                "Client expects a `version` or a `label`, not both. "
                f"Received: version={version}, label={label!r}"
            )
        if version is not None:
            validation.check_int_at_least("Client", "version", version, 0)
        if label is not None and not isinstance(label, str):
            raise ValueError(f"Client expects `label` to be a str. Received: label={label!r}")
        validation.check_number_in_range(
            "Client", "timeout", timeout, 0, MAX_SECONDS, exclude_low=True
        )
        if retries is not None:
            validation.check_int_at_least("Client", "retries", retries, 0)
        validation.check_number_in_range("Client", "backoff", backoff, 0, MAX_SECONDS)
        whole = isinstance(max_message_bytes, int) and not isinstance(max_message_bytes, bool)
        if not whole or not 0 < max_message_bytes <= GRPC_MAX_MESSAGE_BYTES:
            raise ValueError(
                "Client expects `max_message_bytes` to be an int of 1 to "
                f"{GRPC_MAX_MESSAGE_BYTES}. "
                f"Received: max_message_bytes={max_message_bytes!r}"
            )
        self.url, self.model, self.version, self.label = url, model, version, label
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._transport = _transport(url, max_message_bytes)
        self._known_signatures = None
        self._is_closed = False

    def predict(
        self,
        signature: str = "serving_default",
        *,
        output_filter: Sequence[str] = (),
        **inputs: npt.ArrayLike,
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature.

        Args:
            signature: Name of the signature.
            output_filter: Names of the outputs to return; empty for all. Over gRPC the server
                computes no others. REST has no filter, so the client drops them.
            **inputs: Arrays or nested lists. Strings are str or bytes; numbers are cast to the
                dtypes of the signature.

        Returns:
            Dict of arrays. Strings are `str`; in an output named `*_bytes` they are `bytes`.

        Raises:
            ServingError: If the server returns an error, is unreachable or is too slow.
            ValueError: If an input does not match the signature, or the client is closed.
        """
        if isinstance(output_filter, str):
            raise ValueError(
                "predict expects `output_filter` to be a list of names. "
                f"Received: output_filter={output_filter!r}"
            )
        deadline = self._compute_deadline()
        definition = self._get_definition(signature, deadline)
        try:
            return self._predict_once(signature, definition, inputs, output_filter, deadline)
        except ServingError as error:
            # A new version may have inputs or outputs that differ from the known metadata.
            if error.code not in ("INVALID_ARGUMENT", "INTERNAL"):
                raise
            self._refresh(deadline)
            newest = self._get_definition(signature, deadline)
            if newest == definition:
                raise
        return self._predict_once(signature, newest, inputs, output_filter, deadline)

    def translate(
        self,
        texts: list[str],
        phrases: list[list[str]] | None = None,
        *,
        other_sources: list[list[str]] | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Returns the translations of every text and their scores, best first.

        It calls `serving_default` of an exported translator, which returns n-best lists, and leaves
        out padding hypotheses.

        Args:
            texts: Source texts; with `other_sources`, those of the first source.
            phrases: None, or a list of phrases for each text, such as `[["red car"], []]`, that
                each of its translations contains. The client then calls `translate_with_phrases`,
                of exports with `SearchOptions(phrases=True)`.
            other_sources: None, or as many texts of every source behind the first, such as
                `[french]`, for a translator of several sources. The client then calls
                `translate_sources`, which takes no phrases.

        Raises:
            ServingError: If the server returns an error, as for a phrase with an unknown word, or
                the model has only one source.
            ValueError: If an argument is not a list, a phrase has several lines, or the sources are
                more or fewer than those of the model or differ in their number of texts.
        """
        if isinstance(texts, (str, bytes)):
            raise ValueError(f"translate expects a list of texts. Received: {texts!r}")
        signature, inputs = "serving_default", {"text": texts}
        if other_sources is not None:
            signature, inputs = "translate_sources", _name_sources(texts, other_sources, phrases)
            self._check_num_sources(signature, len(inputs))
        elif phrases is not None:
            signature = "translate_with_phrases"
            inputs["phrases"] = _join_phrases(phrases, len(texts))
        if not len(texts):
            return []
        found = self.predict(signature, **inputs)
        return [
            [(text, float(score)) for text, score in zip(*row, strict=True) if score > -1e9]
            for row in zip(found["text"], found["score"], strict=True)
        ]

    def stream(self, text: str, signature: str = "serving_default") -> Iterator[str]:
        """Yields the translation of a text in pieces, as they become certain, over REST.

        The development server streams, TensorFlow Serving does not. If you stop reading, the
        server stops searching. There are no retries.

        Args:
            text: The source text.
            signature: `"serving_default"`, for the best translation of the beam search, or
                `"greedy"`.

        Raises:
            ServingError: If the server returns an error, is unreachable or is too slow.
            ValueError: If the client uses gRPC, or is closed.
        """
        if not isinstance(self._transport, RestClient) or self._is_closed:
            raise ValueError(
                "stream expects an open client of REST, http://host:8501. "
                f"Received: url={self.url!r}"
            )
        for event in self._transport.stream(self, signature, text, self._timeout):
            if "error" in event:
                raise ServingError("ABORTED", str(event["error"]))
            if "text" in event and event["text"][0]:
                yield event["text"][0]

    def signatures(self) -> dict[str, "SignatureDef"]:
        """Returns the model's `SignatureDef` messages by name, from the server."""
        return self._refresh(self._compute_deadline())

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{3: "AVAILABLE", 2: "END"}`."""
        return self._retry(
            lambda seconds: self._transport.status(self, seconds), self._compute_deadline()
        )

    def close(self) -> None:
        """Closes the connections; later calls raise `ValueError`."""
        self._is_closed = True
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, *exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None:
        self.close()

    def _check_num_sources(self, signature, count):
        deadline = self._compute_deadline()
        if len(self._get_definition(signature, deadline).inputs) != count:
            self._refresh(deadline)  # a new version may have more or fewer sources
        expected = len(self._get_definition(signature, deadline).inputs)
        if expected != count:
            raise ValueError(
                f"translate expects a list of texts for each of the {expected} sources of the "
                f"model, the first one as `texts`. Received: {count} lists"
            )

    def _compute_deadline(self):
        return time.monotonic() + self._timeout

    def _refresh(self, deadline):
        self._known_signatures = self._retry(
            lambda seconds: self._transport.signatures(self, seconds), deadline
        )
        return self._known_signatures

    def _predict_once(self, signature, definition, inputs, output_filter, deadline):
        arrays = {
            name: _make_array(value, definition.inputs.get(name)) for name, value in inputs.items()
        }

        def call(seconds):
            return self._transport.predict(
                self, signature, arrays, tuple(output_filter), definition, seconds
            )

        outputs = self._retry(call, deadline)
        return {name: _decode_strings(name, array) for name, array in outputs.items()}

    def _get_definition(self, signature, deadline):
        if self._known_signatures is None or signature not in self._known_signatures:
            self._refresh(deadline)
        if signature not in self._known_signatures:
            known = ", ".join(sorted(self._known_signatures))
            message = f'There is no signature "{signature}". There are: {known}'
            raise ServingError("FAILED_PRECONDITION", message)
        return self._known_signatures[signature]

    def _retry(self, call, deadline):
        """Returns the result of `call(seconds left)`, with retries."""
        if self._is_closed:
            raise ValueError(f"The client of {self.url} is closed. Make another one.")
        backoff = self._backoff
        for attempt in itertools.count():
            backoff = min(backoff, MAX_PAUSE_SECONDS)
            pause = backoff * random.uniform(0.5, 1.5)
            try:
                return call(max(deadline - time.monotonic(), 1e-3))
            except ServingError as error:
                retriable = error.code == "UNAVAILABLE" and attempt != self._retries
                if not retriable or time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            backoff *= 2


def _transport(url, max_message_bytes):
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if scheme not in ("grpc", "http") or not host or path:
        raise ValueError(
            'Client expects `url` to be "grpc://host:port" or "http://host:port". '
            f"Received: url={url!r}"
        )
    if scheme == "grpc":
        return GrpcClient(host, max_message_bytes)
    return RestClient(host, max_message_bytes)


def _join_phrases(phrases, count):
    """Returns the phrases of each text as one text, one phrase per line."""
    for own in phrases:
        if isinstance(own, (str, bytes)) or any("\n" in phrase for phrase in own):
            raise ValueError(
                "translate expects `phrases` to be a list of phrases without line breaks for each "
                f"text, such as [['red car'], []]. Received: {own!r}"
            )
    if len(phrases) != count:
        raise ValueError(
            f"translate expects `phrases` of each of the {count} texts. "
            f"Received: {len(phrases)} lists"
        )
    return ["\n".join(own) for own in phrases]


def _name_sources(texts, other_sources, phrases):
    """Returns the inputs of `translate_sources` for the texts of each source."""
    if phrases is not None:
        raise ValueError("translate expects `phrases` or `other_sources`, not both.")
    if any(isinstance(own, (str, bytes)) or len(own) != len(texts) for own in other_sources):
        raise ValueError(
            f"translate expects each of `other_sources` to be a list of {len(texts)} texts, as "
            f"many as `texts` has. Received: other_sources={other_sources!r}"
        )
    named = {f"text_{number}": own for number, own in enumerate(other_sources, 2)}
    return {"text": texts, **named}


def _make_array(value, info):
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
    # NumPy keeps ints beyond 64 bits as objects, and numbers beside None.
    if array.dtype.kind == "O" and not all(isinstance(text, (str, bytes)) for text in array.flat):
        expected = "numbers or strings" if dtype is None else dtype.name
        raise ValueError(f"An input is expected to hold {expected}. Received: {value!r}")
    if dtype is None or array.dtype.kind in "OSU":
        return array
    with np.errstate(invalid="ignore"):
        cast = array.astype(dtype.as_numpy_dtype)
    if cast.dtype.kind in "biu" and not np.array_equal(array, cast):
        raise ValueError(f"An input is expected to hold {dtype.name}. Received: {value!r}")
    return cast


def _is_unicode(text):
    """Returns whether UTF-8 can encode a text; the server checks bytes."""
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _decode_strings(name, array):
    if array.dtype.kind != "O" or name.endswith("_bytes"):
        return array
    flat = [text.decode("utf-8", "replace") for text in array.ravel()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(array.shape)
