"""How many requests may be under way: some run, some wait, the rest is told to come back."""

import contextlib
import threading
import time

from keras_attention.export.serving.errors import ServingError


class Admission:
    """A bounded queue before the models; safe to use from many threads.

    Args:
        running: Positive int, requests that run at once.
        waiting: Int of at least 0, requests that wait for one of those.

    Example:

    >>> with Admission(running=2, waiting=3).slot():
    ...     answer = "computed here"
    """

    def __init__(self, running: int, waiting: int):
        for name, value, least in (("running", running, 1), ("waiting", waiting, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"Admission expects `{name}` to be an int of at least {least}. "
                    f"Received: {name}={value!r}"
                )
        self.capacity = running + waiting
        self._free = threading.Semaphore(running)
        self._lock, self._inside = threading.Lock(), 0

    @contextlib.contextmanager
    def slot(self, deadline: float | None = None):
        """Waits for a turn and holds it.

        Args:
            deadline: Time on `time.monotonic()` until which it is worth waiting.

        Raises:
            ServingError: UNAVAILABLE if the queue is full, as the model server's batching says,
                DEADLINE_EXCEEDED if no turn came in time.
        """
        with self._lock:
            if self._inside >= self.capacity:
                raise ServingError(
                    "UNAVAILABLE",
                    f"{self._inside} requests are under way already; try again later.",
                )
            self._inside += 1
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._free.acquire(timeout=left):
                raise ServingError("DEADLINE_EXCEEDED", "The deadline passed in the queue.")
            try:
                yield
            finally:
                self._free.release()
        finally:
            with self._lock:
                self._inside -= 1
