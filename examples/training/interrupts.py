"""Ctrl-C and SIGTERM end a run in good order."""

import signal
import threading


class Interrupts:
    """While open, the first SIGINT or SIGTERM sets `requested` instead of ending the process.

    A second one raises `KeyboardInterrupt` at once. So does the first inside `abrupt()`,
    for work that may be dropped half way, such as an evaluation. Outside the main
    thread, where Python delivers no signals, nothing is changed.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.requested = False
        self.is_abrupt = False
        self._previous = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in self.SIGNALS}
        return self

    def __exit__(self, *error):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def abrupt(self):
        """Returns a context in which the first signal raises `KeyboardInterrupt`."""
        return _Abrupt(self)

    def _handle(self, number, frame):
        again, self.requested = self.requested, True
        if again or self.is_abrupt:
            raise KeyboardInterrupt


class _Abrupt:
    def __init__(self, interrupts):
        self.interrupts = interrupts

    def __enter__(self):
        self.interrupts.is_abrupt = True

    def __exit__(self, *error):
        self.interrupts.is_abrupt = False
