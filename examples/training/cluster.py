"""`TF_CONFIG`: where the workers of a run are, and which of them this process is."""

import dataclasses
import json
import os
from collections.abc import Mapping

VARIABLE = "TF_CONFIG"
EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)


class ClusterError(ValueError):
    """`TF_CONFIG` is missing or does not describe a cluster of workers."""

    status = 2


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run; the first one is the chief.

    Args:
        addresses: A `host:port` for each worker.
        index: The place of this process among them.
    """

    addresses: tuple[str, ...]
    index: int


def read_cluster(environment: Mapping[str, str] = os.environ) -> Cluster:
    """Returns the cluster that `TF_CONFIG` describes.

    Raises:
        ClusterError: If it is missing or wrong.

    Example:

    >>> read_cluster({"TF_CONFIG": EXAMPLE})
    Cluster(addresses=('host0:2222', 'host1:2222'), index=0)
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        raise ClusterError(
            f"--strategy multi-worker needs {VARIABLE}, which says where the workers are. Set it "
            f"in every worker, each with its own index, like this: {EXAMPLE}"
        )
    try:
        config = json.loads(text)
    except ValueError as error:
        raise _wrong(f"is not JSON ({error})", text) from error
    config = config if isinstance(config, dict) else {}
    addresses, task = _addresses(config.get("cluster"), text), config.get("task")
    if not isinstance(task, dict) or task.get("type") != "worker":
        raise _wrong('has no "task" of "type": "worker"', text)
    index = task.get("index")
    if isinstance(index, str) and index.isdecimal():  # Kubernetes' variables are texts
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int):
        raise _wrong('has no whole number as "index" of its task', text)
    if not 0 <= index < len(addresses):
        raise _wrong(f"has {len(addresses)} workers, 0 to {len(addresses) - 1}", f"index {index}")
    return Cluster(tuple(addresses), index)


def _addresses(jobs, text):
    if not isinstance(jobs, dict) or set(jobs) != {"worker"}:
        raise _wrong('has no "cluster" with "worker" and nothing else', text)
    addresses = jobs["worker"]
    if not isinstance(addresses, list) or not addresses:
        raise _wrong("has no list of workers", text)
    for address in addresses:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise _wrong("has a worker that is no host:port", repr(address))
    if len(set(addresses)) < len(addresses):
        raise _wrong("names a worker twice", ", ".join(addresses))
    return addresses


def _wrong(what, received):
    return ClusterError(
        f"{VARIABLE} {what}. It must look like this: {EXAMPLE} Received: {received}"
    )
