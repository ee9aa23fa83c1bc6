"""Returns the memory that glibc keeps after large responses to the system."""

import contextlib
import ctypes
import threading

_LOCK = threading.Lock()
_timer = None
TRIM_SECONDS = 1.0


def schedule_trim() -> None:
    """Returns the freed memory that glibc keeps to the system, a second after the last call.

    The delay lets the server send the response, which still holds memory.
    """
    global _timer
    with _LOCK:
        if _timer is not None:
            _timer.cancel()
        _timer = threading.Timer(TRIM_SECONDS, _trim)
        _timer.daemon = True
        _timer.start()


def _trim():
    with contextlib.suppress(AttributeError, OSError):  # a different C library
        ctypes.CDLL(None).malloc_trim(0)
