"""What a request can fail with: the codes of gRPC and the HTTP statuses they stand for."""

import logging
import re
import time

from keras_attention import extras
from keras_attention.export.reasons import reason

# As the REST interface of the model server translates them (model_servers/http_server.cc).
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
# The numbers of gRPC's codes, in their order; TensorFlow's and abseil's are the same.
CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)

LONGEST_MESSAGE = 2000  # characters; gRPC sends no status of more than 8 KiB
# A path from the root of the file system, but neither a URL's nor a device's of TensorFlow.
_FOLDERS = re.compile(r"""(?<![\w.:/-])/(?:[^\s/'":;,()]+/)+""")
# What TensorFlow puts around a reason: where in the graph, and which op of Python.
_NOISE = re.compile(r"\{\{function_node [^}]*\}\} *| *\[Op:\w+\] name: *$")
LOG = logging.getLogger(__name__)


class ServingError(RuntimeError):
    """A request that has no answer, and why.

    Args:
        code: Name of a gRPC status code, such as `"INVALID_ARGUMENT"`.
        message: What was wrong.
        http_status: Int, where it is not the usual one for `code`.

    Example:

    >>> error = ServingError("NOT_FOUND", "no such model")
    >>> error.http_status, str(error)
    (404, 'NOT_FOUND: no such model')
    """

    def __init__(self, code: str, message: str, http_status: int | None = None):
        if len(message) > LONGEST_MESSAGE:
            message = message[:LONGEST_MESSAGE] + "..."
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message
        self.http_status = http_status or HTTP_STATUS[code]


def invalid(message: str) -> ServingError:
    """Returns the error of a request that is wrong in itself."""
    return ServingError("INVALID_ARGUMENT", message)


def too_long(max_bytes: int, advice: str = "Send fewer rows in a request.") -> ServingError:
    """Returns the error of an answer that would be longer than `max_bytes`."""
    return ServingError(
        "RESOURCE_EXHAUSTED",
        f"The answer would be longer than {max_bytes:,} bytes. {advice}",
        http_status=413,
    )


def check_deadline(deadline: float | None, when: str) -> None:
    """Raises DEADLINE_EXCEEDED if `deadline`, a time on `time.monotonic()`, has passed."""
    if deadline is not None and time.monotonic() >= deadline:
        raise ServingError("DEADLINE_EXCEEDED", f"The deadline passed {when}.")


def of_tensorflow(error, *folders) -> ServingError:
    """Returns what TensorFlow raised as a serving error, for clients: one line, without paths.

    What it said in full is logged, where a line or a path was left out.

    Args:
        error: A `tf.errors.OpError`, or what its Python code raises.
        *folders: Paths that it may name, with spaces in them say.
    """
    number = getattr(error, "error_code", None)
    code = CODES[number] if number and 0 < number < len(CODES) else "UNKNOWN"
    message = without_folders(_NOISE.sub("", reason(error)), *folders)
    told = str(getattr(error, "message", None) or error)
    if message != told.partition("\n\nOriginal stack trace")[0].strip():
        LOG.warning("%s: %s", code, told)
    return ServingError(code, message)


def without_folders(text: str, *folders) -> str:
    """Returns `text` with the names alone of the files that it names.

    >>> without_folders("/srv/de-en/1/saved_model.pb is damaged; /job:localhost is not")
    'saved_model.pb is damaged; /job:localhost is not'
    """
    for folder in sorted(map(str, folders), key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return _FOLDERS.sub("", text)


def missing_package(name: str) -> ImportError:
    """Returns the error of a package that serving or asking needs, with the extra that has it."""
    return extras.missing_package("keras_attention.export.serving", name, "serve")
