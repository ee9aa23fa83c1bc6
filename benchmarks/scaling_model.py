"""Step time of training on several workers, from gradient bytes, bandwidth, latency and tokens.

    step       = (compute(tokens of one worker) + all_reduce) * slowdown
    all_reduce = 2 (n - 1) * latency + 2 (n - 1) / n * bytes / bandwidth        a ring of n workers

Nothing is hidden behind something else: the gradient is summed when all of it is there, as in
`examples/training/distribution.py`. The slowdown is 1 where each worker has a core of its own.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Ring:
    """Workers that sum a gradient in a ring.

    Args:
        latency: Seconds from one worker to the next.
        bandwidth: Bytes a second that a worker sends.
        per_machine: Workers in a machine; None for one machine with all of them.
        far_latency: Seconds from the last worker of a machine to the first one of the next.
        far_bandwidth: Bytes a second that a machine sends.
    """

    latency: float
    bandwidth: float
    per_machine: int | None = None
    far_latency: float = 0.0
    far_bandwidth: float = float("inf")

    def all_reduce_seconds(self, num_bytes: float, workers: int) -> float:
        """Returns the time in which every worker gets the sum of all.

        Args:
            num_bytes: Bytes of the gradient.
            workers: Number of workers.

        Example:

        >>> Ring(latency=0.001, bandwidth=1e9).all_reduce_seconds(2e9, workers=2)
        2.002
        """
        hops, machines = 2 * (workers - 1), -(-workers // (self.per_machine or workers))
        far = 2 * (machines - 1)
        bandwidth = min(self.bandwidth, self.far_bandwidth) if far else self.bandwidth
        latency = (hops - far) * self.latency + far * self.far_latency
        return latency + hops / workers * num_bytes / bandwidth


@dataclasses.dataclass(frozen=True)
class Training:
    """Training steps on several workers.

    Args:
        compute: Returns the seconds of a step of one worker alone, from its tokens.
        num_bytes: Bytes of the gradient.
        ring: The `Ring`.
        cores: Cores that the workers share, a worker using one; None for one each.
    """

    compute: Callable[[float], float]
    num_bytes: float
    ring: Ring
    cores: int | None = None

    def find_slowdown(self, workers: int) -> float:
        """Returns how many times as long a worker takes because others use its core."""
        return max(1.0, workers / (self.cores or workers))

    def all_reduce_seconds(self, workers: int) -> float:
        """Returns the time of one sum of the gradient."""
        seconds = self.ring.all_reduce_seconds(self.num_bytes, workers)
        return self.find_slowdown(workers) * seconds

    def step_seconds(self, tokens: float, workers: int) -> float:
        """Returns the time of a step of `tokens` tokens a worker.

        Example:

        >>> training = Training(lambda tokens: 0.5 + 0.001 * tokens, 2e9, Ring(0.0, 1e9))
        >>> training.step_seconds(tokens=500, workers=1), training.step_seconds(500, workers=2)
        (1.0, 3.0)
        """
        compute = self.find_slowdown(workers) * self.compute(tokens)
        return compute + self.all_reduce_seconds(workers)

    def efficiency(self, tokens: float, workers: int) -> float:
        """Returns the tokens a second of a worker as a fraction of those of one alone."""
        return self.step_seconds(tokens, 1) / self.step_seconds(tokens, workers)


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Returns intercept and slope, neither negative, that miss the least in proportion.

    Args:
        sizes: At least two different sizes.
        seconds: The time of each.

    Example:

    >>> [round(value, 6) for value in fit_line([1, 2, 4], [3, 5, 9])]
    [1.0, 2.0]
    """
    sizes, seconds = np.asarray(sizes, float), np.asarray(seconds, float)
    slope, intercept = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    if intercept < 0:
        intercept, slope = 0.0, float(np.mean(seconds / sizes))
    return float(intercept), float(slope)


def fit_ring(workers: int, sizes: Sequence[float], seconds: Sequence[float]) -> Ring:
    """Returns the ring whose all-reduces of `sizes` bytes take `seconds`."""
    intercept, slope = fit_line(sizes, seconds)
    hops = 2 * (workers - 1)
    return Ring(latency=intercept / hops, bandwidth=hops / workers / slope)
