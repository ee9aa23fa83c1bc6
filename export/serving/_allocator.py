"""Controls the garbage collector and the C allocator for requests of millions of values."""

import contextlib
import ctypes
import gc
import threading

_LOCK = threading.Lock()
_num_pauses = 0
_was_enabled = False
_timer = None
TRIM_SECONDS = 1.0


@contextlib.contextmanager
def pause_garbage_collection():
    """Pauses the garbage collector; several threads may do so at the same time.

    A JSON document of millions of lists has no cycles. Collections while it is parsed would take
    ten times as long as the parsing, and block all other threads.
    """
    global _num_pauses, _was_enabled
    with _LOCK:
        if not _num_pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _num_pauses += 1
    try:
        yield
    finally:
        with _LOCK:
            _num_pauses -= 1
            if not _num_pauses and _was_enabled:
                gc.enable()


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
