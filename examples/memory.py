"""Keeps freed memory in the process, for training steps that allocate the same again and again.

The C library gives large blocks back to the system when they are freed, and each step then
waits for fresh pages: on two cores a fifth of the time of an RNNsearch step (docs/performance.md).
"""

import ctypes
import sys

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Tells the C library to keep what is freed; returns whether it could be told.

    Only glibc has these settings; elsewhere nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((MMAP_MAX, 0), (TRIM_THRESHOLD, 2**31 - 1), (TOP_PAD, 2**26))
    return all([mallopt(name, value) for name, value in settings])
