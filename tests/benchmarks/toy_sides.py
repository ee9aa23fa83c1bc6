"""Sides for the harness's tests, built in its worker processes."""

import os
import sys
import time
from pathlib import Path


def recorder(name, log, seconds=0.0):
    """Appends its name to a file at each call."""
    path = Path(log)
    with path.open("a") as file:
        file.write(f"build {name}\n")

    def work():
        with path.open("a") as file:
            file.write(f"{name}\n")
        time.sleep(seconds)
        return 1.0

    return work


def talker():
    """Prints as libraries do; that must not be taken for an answer."""
    print("building")
    os.write(1, b"from below Python\n")

    def work():
        print('{"seconds": [99]}')
        return 0.5

    return work


def holder(megabytes):
    """Holds memory only during the call."""

    def work():
        block = bytearray(megabytes * 1_000_000)
        block[::4096] = b"x" * len(block[::4096])
        return float(block[0])

    return work


def environment(variable, expected):
    """Fails unless an environment variable has the expected value."""
    return lambda: 1.0 if os.environ.get(variable) == expected else float("nan")


def broken():
    """Cannot be built."""
    raise ValueError("no such\nsize")


def exit_midway():
    """Ends its process in the middle of a call."""

    def work():
        print("last words", file=sys.stderr, flush=True)
        os._exit(7)

    return work
