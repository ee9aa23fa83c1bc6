"""A bounded queue of requests: some run, some wait, further requests are refused."""

import contextlib
import threading
import time

from keras_attention.export.serving.errors import ServingError


class RequestQueue:
    """A bounded queue before the models; safe to use from many threads.

    Args:
        max_concurrency: Positive int, the number of requests that run at the same time.
        max_queue: Int of at least 0, the number of requests that wait.

    Example:

    >>> with RequestQueue(max_concurrency=2, max_queue=3).acquire_slot():
    ...     answer = "computed here"
    """

    def __init__(self, max_concurrency: int, max_queue: int):
        for name, value, least in (
            ("max_concurrency", max_concurrency, 1),
            ("max_queue", max_queue, 0),
        ):
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"RequestQueue expects `{name}` to be an int of at least {least}. "
                    f"Received: {name}={value!r}"
                )
        self.capacity = max_concurrency + max_queue
        self._free = threading.Semaphore(max_concurrency)
        self._lock, self._num_admitted = threading.Lock(), 0
        self._is_closed = False

    def close(self) -> None:
        """Refuses all requests that wait, and later ones."""
        self._is_closed = True
        self._free.release(self.capacity)  # wakes everyone who waits

    @contextlib.contextmanager
    def acquire_slot(self, deadline: float | None = None):
        """Waits for a slot and holds it inside the `with` block.

        Args:
            deadline: Time on `time.monotonic()` at which waiting ends.

        Raises:
            ServingError: UNAVAILABLE if the queue is full, as in the batching of TensorFlow
                Serving, or closed; DEADLINE_EXCEEDED if no slot became free in time.
        """
        with self._lock:
            if self._num_admitted >= self.capacity:
                raise ServingError(
                    "UNAVAILABLE",
                    f"{self._num_admitted} requests are under way already; try again later.",
                )
            self._num_admitted += 1
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._free.acquire(timeout=left):
                raise ServingError("DEADLINE_EXCEEDED", "The deadline passed in the queue.")
            try:
                if self._is_closed:
                    raise ServingError("UNAVAILABLE", "The server is ending.")
                yield
            finally:
                self._free.release()
        finally:
            with self._lock:
                self._num_admitted -= 1
