"""Freed memory stays in the process: allocating the same again waits for no fresh pages."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from examples.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
np.ones(2**23)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how):
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_kept_memory_brings_no_page_faults():
    kept, given_back = _faults("keep"), _faults("default")
    assert kept < given_back / 10, (kept, given_back)
