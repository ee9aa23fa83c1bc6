"""A server with batching as a queue: simulated latencies, and the replicas that a load needs.

Requests arrive at random (a Poisson process) at one of several equal replicas, each with the same
probability, so that arrivals at one replica are a Poisson process too. A replica has `instances`
threads that run batches. An idle one takes the oldest requests, at most `max_batch_size`, as soon
as there are so many or the oldest has waited `timeout` seconds: the rule of `max_batch_size`,
`batch_timeout_micros` and `num_batch_threads` in TensorFlow Serving
(`tensorflow_serving/batching/README.md`). A batch is rounded up to a measured size and takes one
of the times measured for it, drawn at random.

With one instance, no batching and equal times this is the queue M/D/1, with random times M/G/1;
their mean waiting time is known (Pollaczek and Khinchine: `rate * E[s^2] / (2 (1 - rate * E[s]))`),
and the tests compare. Percentiles of batches have no closed form, therefore a simulation.
"""

import bisect
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

REQUESTS = 20_000
WARM_UP = 0.1  # of the simulated requests, which find an empty server, are left out
MIN_UTILIZATION = 0.001  # with more replicas than this needs, the wait for others is the latency


@dataclass(frozen=True)
class Setting:
    """How one replica runs requests.

    Args:
        instances: Batches that run at once.
        max_batch_size: Requests of a batch at most; 1 for a server without batching.
        timeout: Seconds that a request waits for others.
    """

    instances: int
    max_batch_size: int = 1
    timeout: float = 0.0


@dataclass(frozen=True)
class Plan:
    """A setting and what it needs: replicas, their utilization and the latency in seconds."""

    setting: Setting
    replicas: int
    utilization: float
    latency: float


def simulate(
    setting: Setting,
    times: Mapping[int, Sequence[float]],
    rate: float,
    requests: int = REQUESTS,
    seed: int = 0,
) -> np.ndarray:
    """Returns the latency of each request, from its arrival to the end of its batch, in seconds.

    Args:
        setting: The server's.
        times: Dict from batch sizes to measured seconds of a batch.
        rate: Requests a second, more than 0.
        requests: Requests to simulate; the first tenth is left out.
        seed: Seed of the arrivals and of the draws from `times`.

    Example:

    >>> latency = simulate(Setting(instances=1), {1: [0.5]}, rate=0.001)
    >>> float(round(latency.mean(), 2))
    0.5
    """
    generator = np.random.default_rng(seed)
    arrivals = np.cumsum(generator.exponential(1 / rate, requests)).tolist()
    # One draw a request, as a rank: a batch of any size uses the one of its first request.
    ranks = generator.random(requests).tolist()
    sizes = sorted(times)
    free = [0.0] * setting.instances
    latencies, first = np.empty(requests), 0
    while first < requests:
        ready = heapq.heappop(free)
        last = first + setting.max_batch_size - 1
        full = arrivals[last] if last < requests else math.inf
        start = max(ready, min(full, arrivals[first] + setting.timeout))
        end = min(last + 1, bisect.bisect_right(arrivals, start))
        measured = times[sizes[bisect.bisect_left(sizes, end - first)]]
        finish = start + measured[int(ranks[first] * len(measured))]
        for request in range(first, end):
            latencies[request] = finish - arrivals[request]
        heapq.heappush(free, finish)
        first = end
    return latencies[int(WARM_UP * requests) :]


def compute_capacity(setting: Setting, times: Mapping[int, Sequence[float]]) -> float:
    """Returns the requests a second beyond which the queue of a replica grows without end."""
    size = max(size for size in times if size <= setting.max_batch_size)  # of a queue that is long
    return setting.instances * size / float(np.mean(times[size]))


def find_replicas(
    setting: Setting,
    times: Mapping[int, Sequence[float]],
    load: float,
    percentile: float,
    goal: float,
) -> Plan | None:
    """Returns the fewest replicas whose latency percentile is at most `goal`, None if none do.

    Args:
        setting: The setting of each replica.
        times: Dict from batch sizes to measured seconds of a batch.
        load: Requests a second at all replicas together.
        percentile: Percentile of the latency, between 0 and 100.
        goal: Its limit in seconds.
    """
    capacity = compute_capacity(setting, times)

    def predict(replicas):
        return float(np.percentile(simulate(setting, times, load / replicas), percentile))

    low = math.floor(load / capacity)  # too few
    high, step = low + 1, 1
    while (latency := predict(high)) > goal:
        if load / high < MIN_UTILIZATION * capacity:
            return None
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        found = predict(middle)
        if found <= goal:
            high, latency = middle, found
        else:
            low = middle
    return Plan(setting, high, load / high / capacity, latency)


def choose(plans: Sequence[Plan | None]) -> Plan | None:
    """Returns the plan of the fewest replicas, and of these the fastest; None if there is none."""
    found = [plan for plan in plans if plan is not None]
    return min(found, key=lambda plan: (plan.replicas, plan.latency), default=None)
