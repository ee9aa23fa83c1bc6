"""How busy the machine is with other work: the cores that processes other than ours use."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

STATISTICS = Path("/proc/stat")


@contextlib.contextmanager
def watch_other_work(*servers: int) -> Iterator[list[float]]:
    """Measures what other processes use while its block runs.

    Time that the host takes from a virtual machine counts as other work.

    Args:
        *servers: Ids of running processes whose work is ours. This process and those of its
            children that end in the block are ours too.

    Yields:
        A list that holds one number after the block, the cores that were used on average, at
        least 0; none where the system does not say (Linux does).

    Example:

    >>> with watch_other_work() as cores:
    ...     time.sleep(0.05)
    >>> all(number >= 0 for number in cores)
    True
    """
    cores: list[float] = []
    began, all_before = time.monotonic(), _read_all_seconds()
    own_before = _read_own_seconds(servers)
    yield cores
    if all_before is not None:
        others = _read_all_seconds() - all_before - (_read_own_seconds(servers) - own_before)
        cores.append(max(0.0, others / (time.monotonic() - began)))


def _read_all_seconds():
    """Returns the CPU seconds of the cores this process may use, None if nobody says."""
    if not STATISTICS.is_file():
        return None
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in STATISTICS.read_text().splitlines()]
    ticks = 0
    for name, *numbers in lines:
        if name in names:
            user, nice, system, _, _, *interrupts = map(int, numbers[:8])  # idle, iowait left out
            ticks += user + nice + system + sum(interrupts)
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_own_seconds(servers):
    """Returns the CPU seconds of this process, of its children that ended, and of `servers`."""
    seconds = sum(os.times()[:4])
    for server in servers:
        file = Path(f"/proc/{server}/stat")
        if file.is_file():
            fields = file.read_text().rpartition(")")[2].split()  # behind the name
            seconds += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return seconds
