"""Runs the workers of a GPU comparison and talks to them, each under a time limit."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading

from benchmarks.harness import ROOT, BenchmarkError


class Worker:
    """A running process of one library; it is started again after it died or hung.

    Args:
        library: "jax" or "torch".
        environment: Environment variables beside those of this process.
    """

    def __init__(self, library: str, environment: dict[str, str]) -> None:
        self.library, self._environment = library, environment
        self._process = None
        self._start()

    def _start(self):
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.worker", self.library],
            cwd=ROOT,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lines = queue.Queue()
        threading.Thread(
            target=self._read, args=(self._process.stdout, self._lines), daemon=True
        ).start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put("")

    def ask(self, seconds: float, **request) -> dict:
        """Returns the answer to a request.

        Raises:
            BenchmarkError: If the worker died or gave no answer in time; it is started anew.
        """
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=max(1.0, seconds))
        except queue.Empty:
            self._restart()
            raise BenchmarkError(f"no answer within {seconds:.0f} s") from None
        except BrokenPipeError:
            line = ""
        if not line:
            text = self._last_lines()
            self._restart()
            raise BenchmarkError(f"the process ended: {text}")
        return json.loads(line)

    def _last_lines(self):
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()[-2:]
        return f"exit status {status}. " + " | ".join(lines)[-300:]

    def _restart(self):
        self.stop()
        self._start()

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._errors.close()
