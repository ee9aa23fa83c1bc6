"""What a measurement ran on: the machine, its load, and the versions of the libraries."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

from benchmarks.harness import available_cores

# Instruction sets that decide how fast matrix products are, widest last.
INSTRUCTION_SETS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")
DISTRIBUTIONS = ("keras-attention-layers", "tensorflow", "keras", "torch", "numpy")


def describe_machine() -> dict:
    """Returns a dict of strings and numbers that identify the kind of machine, not which one."""
    return {
        "processor": processor_name(),
        "cores": available_cores(),
        "instruction_sets": instruction_sets(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def processor_name() -> str:
    """Returns the processor's name as the system gives it, or "unknown"."""
    found = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown"


def instruction_sets() -> list[str]:
    """Returns which of `INSTRUCTION_SETS` the processor has; empty where Linux does not say."""
    found = re.search(r"^flags\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    return [name for name in INSTRUCTION_SETS if name in flags]


def library_versions() -> dict[str, str]:
    """Returns the version of each library that takes part, or "not installed"."""
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _cpuinfo():
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""
