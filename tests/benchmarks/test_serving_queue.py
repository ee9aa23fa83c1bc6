"""The simulated server against queues whose waiting times are known, and batches by hand."""

import math

import numpy as np
import pytest

from benchmarks.serving_queue import Setting, choose, compute_capacity, find_replicas, simulate

MANY = 200_000


@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.8])
def test_mean_waiting_of_m_d_1(utilization):
    """Pollaczek and Khinchine for equal times: `rho s / (2 (1 - rho))`."""
    latency = simulate(Setting(1), {1: [0.1]}, utilization / 0.1, MANY)
    expected = 0.1 * utilization / (2 * (1 - utilization))
    assert latency.mean() - 0.1 == pytest.approx(expected, rel=0.05)


def test_mean_waiting_of_m_g_1():
    times, rate = [0.02, 0.05, 0.2], 6.0
    latency = simulate(Setting(1), {1: times}, rate, MANY)
    mean, square = np.mean(times), np.mean(np.square(times))
    expected = rate * square / (2 * (1 - rate * mean))
    assert latency.mean() - mean == pytest.approx(expected, rel=0.05)


def test_percentiles_of_m_m_1():
    """The time in an M/M/1 queue is exponential with rate `mu - lambda`."""
    times = np.random.default_rng(1).exponential(0.1, 50_000)
    latency = simulate(Setting(1), {1: times}, 7.0, MANY)
    rate = 1 / times.mean() - 7.0
    for percentile in (50, 95):
        expected = -math.log(1 - percentile / 100) / rate
        assert np.percentile(latency, percentile) == pytest.approx(expected, rel=0.06)


def test_mean_waiting_of_m_m_3():
    """Erlang's C formula."""
    times = np.random.default_rng(2).exponential(0.1, 50_000)
    load, servers = 24.0 * times.mean(), 3
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    wait = last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)
    latency = simulate(Setting(servers), {1: times}, 24.0, MANY)
    expected = wait * times.mean() / (servers - load)
    assert latency.mean() - times.mean() == pytest.approx(expected, rel=0.08)


def test_a_lone_request_waits_for_others_until_the_timeout():
    latency = simulate(Setting(1, 4, timeout=0.5), {1: [0.1], 4: [0.2]}, 1e-4, 100)
    np.testing.assert_allclose(latency, 0.6)


def test_a_full_batch_does_not_wait():
    """At 1,000 a second two requests are there long before 10 s; the pair takes the time of 2."""
    latency = simulate(Setting(1000, 2, timeout=10.0), {1: [9.0], 2: [0.1]}, 1000.0, 2000)
    assert latency.min() == pytest.approx(0.1) and latency.max() < 0.2


def test_a_batch_is_rounded_up_to_a_measured_size():
    latency = simulate(Setting(1000, 3, timeout=10.0), {1: [1.0], 4: [7.0]}, 1000.0, 300)
    assert latency.min() >= 7.0


def test_capacity_is_of_the_largest_batch():
    """A queue that grows fills its batches, even where smaller ones would be faster."""
    times = {1: [0.1, 0.3], 2: [0.2, 0.2], 4: [1.0]}
    assert compute_capacity(Setting(2, 1), times) == pytest.approx(10.0)
    assert compute_capacity(Setting(2, 4), times) == pytest.approx(8.0)
    setting, times = Setting(1, 16), {1: [0.005], 8: [0.02], 16: [0.05]}
    capacity = compute_capacity(setting, times)
    for rate, is_stable in ((0.9 * capacity, True), (1.02 * capacity, False)):
        latency = simulate(setting, times, rate, MANY)
        assert (latency[-1000:].mean() < 1.0) == is_stable
    assert find_replicas(setting, times, 325.0, 95, goal=2.0).replicas == 2


def test_one_replica_less_is_too_few():
    times, setting = {1: [0.04, 0.06]}, Setting(2)
    plan = find_replicas(setting, times, load=500.0, percentile=95, goal=0.1)
    assert plan.latency <= 0.1 and plan.utilization == pytest.approx(500 / plan.replicas / 40)
    fewer = simulate(setting, times, 500.0 / (plan.replicas - 1))
    assert np.percentile(fewer, 95) > 0.1


def test_a_goal_below_the_fastest_call_has_no_plan():
    assert find_replicas(Setting(1), {1: [0.05]}, 200.0, 95, goal=0.04) is None
    assert choose([None, None]) is None


def test_fewest_replicas_are_chosen_and_then_the_fastest():
    times = {1: [0.05], 8: [0.06]}
    plans = [
        find_replicas(setting, times, 300.0, 95, goal=0.2)
        for setting in (Setting(1), Setting(1, 8), Setting(1, 8, timeout=0.05))
    ]
    assert choose(plans) == min(plans, key=lambda plan: (plan.replicas, plan.latency))
    assert choose(plans).setting.max_batch_size == 8 and plans[0].replicas > choose(plans).replicas
