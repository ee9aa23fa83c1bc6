"""Errors of requests: gRPC codes and their HTTP statuses."""

import bisect
import itertools
import logging
import os
import re
import time

from keras_attention import validation
from keras_attention.export._exception_summary import summarize_error

# The mapping of TensorFlow Serving's REST interface (model_servers/http_server.cc).
HTTP_STATUS = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}
# The index is the number of a gRPC code; TensorFlow and abseil use the same numbers.
GRPC_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)

REQUEST_FAILED = "The request failed; see the server's log."
MAX_MESSAGE_CHARACTERS = 2000
# gRPC sends a status as a header, percent-encoded, and clients refuse headers of 8 KiB.
MAX_MESSAGE_BYTES = 6 * 2**10
_WORD = r"""[^\s/'":;]+"""
# A path from the root of the file system, a file's URL too, but neither another URL's path nor a
# device of TensorFlow. Spaces may stand within a folder's name, and no comma at its end.
_FOLDERS = re.compile(
    rf"(?:\bfile://[\w.-]*(?=/)|(?<![\w./-]))/(?:{_WORD}(?: {_WORD}){{0,3}}(?<!,)/)+"
)
# TensorFlow adds the place in the graph and the Python op to the reason.
_NOISE = re.compile(r"\{\{function_node [^}]*\}\} *| *\[Op:\w+\] name: *$")
LOG = logging.getLogger(__name__)


class ServingError(RuntimeError):
    """A request that failed, and the reason.

    Args:
        code: Name of a gRPC status code, such as `"INVALID_ARGUMENT"`.
        message: The reason. It is put on one line, and truncated if it is too long for gRPC.
        http_status: Int, if it is not the usual status for `code`.

    Example:

    >>> error = ServingError("NOT_FOUND", "no such model")
    >>> error.http_status, str(error)
    (404, 'NOT_FOUND: no such model')
    """

    code: str
    message: str
    http_status: int

    def __init__(self, code: str, message: str, http_status: int | None = None) -> None:
        message = _shorten(message)
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message
        self.http_status = http_status or HTTP_STATUS[code]


def _shorten(message):
    """A message as one line that is short enough for a status of gRPC."""
    line = " ".join(message[:MAX_MESSAGE_CHARACTERS].splitlines())
    sizes = list(itertools.accumulate(map(_count_encoded_bytes, line)))
    kept = line[: bisect.bisect_right(sizes, MAX_MESSAGE_BYTES)]
    is_cut = len(message) > MAX_MESSAGE_CHARACTERS or len(kept) < len(line)
    return f"{kept}..." if is_cut else kept


def _count_encoded_bytes(character):
    """The bytes of a character in a status: all but ASCII is percent-encoded UTF-8."""
    if " " <= character <= "~" and character != "%":
        return 1
    return 3 * len(character.encode("utf-8", "surrogatepass"))


def invalid_argument(message: str) -> ServingError:
    """Returns the error of an invalid request."""
    return ServingError("INVALID_ARGUMENT", message)


def response_too_long(
    max_bytes: int, advice: str = "Send fewer examples in a request."
) -> ServingError:
    """Returns the error of a response that would be larger than `max_bytes`."""
    return ServingError(
        "RESOURCE_EXHAUSTED",
        f"The response would be longer than {max_bytes:,} bytes. {advice}",
        http_status=413,
    )


def check_deadline(deadline: float | None, when: str) -> None:
    """Raises DEADLINE_EXCEEDED if `deadline`, a time on `time.monotonic()`, has passed."""
    if deadline is not None and time.monotonic() >= deadline:
        raise ServingError("DEADLINE_EXCEEDED", f"The deadline passed {when}.")


def convert_tensorflow_error(error: Exception, *folders: str | os.PathLike[str]) -> ServingError:
    """Converts an error of TensorFlow to a `ServingError` for clients: one line, without paths.

    The full message is logged if it is shortened.

    Args:
        error: A `tf.errors.OpError`, or an error of TensorFlow's Python code.
        *folders: Paths to remove; needed for paths with spaces.
    """
    number = getattr(error, "error_code", None)
    code = GRPC_CODES[number] if number and 0 < number < len(GRPC_CODES) else "UNKNOWN"
    message = strip_folders(_NOISE.sub("", summarize_error(error)), *folders)
    full_message = str(getattr(error, "message", None) or error)
    if message != full_message.partition("\n\nOriginal stack trace")[0].strip():
        LOG.warning("%s: %s", code, full_message)
    return ServingError(code, message)


def strip_folders(text: str, *folders: str | os.PathLike[str]) -> str:
    """Returns `text` with every path shortened to its file name.

    >>> strip_folders("/srv/de-en/1/saved_model.pb is damaged; /job:localhost is not")
    'saved_model.pb is damaged; /job:localhost is not'
    """
    for folder in sorted(map(str, folders), key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return _FOLDERS.sub("", text)


def missing_package_error(name: str) -> ImportError:
    """Returns the error of a missing package of the extra `serve`."""
    return validation.missing_package_error("keras_attention.export.serving", name, "serve")
