"""The process of one side: builds a case, then calls it whenever the harness asks.

Requests come as lines of JSON on standard input and are answered in the same way on what was
standard output; anything a library prints goes to standard error instead.
"""

import importlib
import json
import math
import os
import re
import sys
import time
from pathlib import Path

STATUS = Path("/proc/self/status")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    work = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "build":
                work = _load(request["factory"])(**request["options"])
                answer = {"facts": getattr(work, "facts", {})}
            elif request["do"] == "call":
                answer = {"seconds": [_time_call(work) for _ in range(request["times"])]}
            elif request["do"] == "cpu":
                answer = {"seconds": [_time_call(work, time.process_time)]}
            else:
                answer = _memory(work, request["times"])
        except Exception as error:  # told to the harness, which ends the run
            text = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {text[:500]}"}
        answers.write(json.dumps(answer) + "\n")


def _load(factory):
    module, name = factory.split(":")
    return getattr(importlib.import_module(module), name)


def _time_call(work, clock=time.perf_counter):
    start = clock()
    value = work()
    seconds = clock() - start
    _check(value)
    return seconds


def _memory(work, times):
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, see man 5 proc
    for _ in range(times):
        _check(work())
    return {"before": before * 1024, "peak": _kilobytes("VmHWM") * 1024}


def _check(value):
    if not math.isfinite(value):
        raise ArithmeticError(f"computed {value}, which is not a finite number")


def _kilobytes(name):
    if not STATUS.exists():
        raise OSError(f"memory is read from {STATUS}, which only Linux has; use --no-memory")
    return int(re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)[1])


if __name__ == "__main__":
    main()
