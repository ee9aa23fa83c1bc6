"""What a request can fail with: the codes of gRPC and the HTTP statuses they stand for."""

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
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message
        self.http_status = http_status or HTTP_STATUS[code]


def invalid(message: str) -> ServingError:
    """Returns the error of a request that is wrong in itself."""
    return ServingError("INVALID_ARGUMENT", message)


def of_tensorflow(error) -> ServingError:
    """Returns a `tf.errors.OpError` as a serving error, without this process's stack traces."""
    code = CODES[error.error_code] if 0 < error.error_code < len(CODES) else "UNKNOWN"
    message = str(error.message).partition("\n\nOriginal stack trace")[0].strip()
    return ServingError(code, message or type(error).__name__)


def missing_package(name: str) -> ImportError:
    """Returns the error of a package that serving or asking needs, with the extra that has it."""
    return ImportError(
        f"{name} is not installed. It comes with the extra of this project that serves: "
        "pip install '.[serve]' in the checkout"
    )
