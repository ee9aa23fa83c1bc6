"""Python's garbage collector and C's allocator, around requests of millions of values."""

import contextlib
import ctypes
import gc
import threading

_LOCK = threading.Lock()
_pauses = 0
_was_enabled = False
_timer = None
TRIM_SECONDS = 1.0


@contextlib.contextmanager
def pause_collections():
    """Keeps the garbage collector from running; threads may overlap.

    A document of millions of lists has no cycles, and the collections that they set off would
    take ten times as long as reading them, with every other thread waiting.
    """
    global _pauses, _was_enabled
    with _LOCK:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _LOCK:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()


def trim_soon() -> None:
    """Returns freed memory to the system, which glibc keeps, a second after the last call.

    Later, as an answer is still held where it is sent.
    """
    global _timer
    with _LOCK:
        if _timer is not None:
            _timer.cancel()
        _timer = threading.Timer(TRIM_SECONDS, _trim)
        _timer.daemon = True
        _timer.start()


def _trim():
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
