"""Loads in a process of their own: requests at random times, or of clients that wait for answers.

Reads one line of JSON, `{"load": "ask"}` or `{"load": "ask_in_turn"}` with the arguments of that
function, and writes one with the latencies.
"""

import concurrent.futures
import itertools
import json
import sys
import time

import numpy as np

CONNECTION_THREADS = 128


def ask(
    url: str, model: str, signature: str, rows: list[dict], rate: float, requests: int, seed: int
) -> dict:
    """Sends single rows at the times of a Poisson process, answered or not.

    The time of a request counts from when it was to arrive, so that a server that falls behind
    cannot slow the clock.

    Args:
        url: Where the server is.
        model: Its model.
        signature: The signature that is asked.
        rows: Inputs of one row each, drawn at random.
        rate: Requests a second.
        requests: Number of requests.
        seed: Seed of times and rows.

    Returns:
        Dict of `seconds`, the latencies of the requests that were answered, `errors`, the number
        of the others, and `delays`, by how many seconds each was sent after it was to arrive.
    """
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.exponential(1 / rate, requests)).tolist()
    chosen = generator.integers(len(rows), size=requests).tolist()
    with (
        _connect(url, model) as client,
        concurrent.futures.ThreadPoolExecutor(CONNECTION_THREADS) as pool,
    ):
        for row in rows[:5]:
            _predict(client, signature, row)
        began = time.perf_counter()

        def send(arrival, row):
            delay = time.perf_counter() - began - arrival
            is_answered = _is_answered(client, signature, row)
            return delay, is_answered, time.perf_counter() - began - arrival

        answers = []
        for arrival, row in zip(due, chosen, strict=True):
            time.sleep(max(0.0, arrival - (time.perf_counter() - began)))
            answers.append(pool.submit(send, arrival, rows[row]))
        results = [answer.result() for answer in answers]
    answered = [seconds for _, is_answered, seconds in results if is_answered]
    delays = [delay for delay, *_ in results]
    return {"seconds": answered, "errors": requests - len(answered), "delays": delays}


def ask_in_turn(
    url: str,
    model: str,
    signature: str,
    rows: list[dict],
    clients: int,
    requests: int,
    max_seconds: float,
    mean_pause: float = 0.0,
) -> dict:
    """Sends single rows from clients of which each waits for its answer.

    Args:
        url: Where the server is.
        model: Its model.
        signature: The signature that is asked.
        rows: Inputs of one row each, taken in turn.
        clients: Number of clients, threads with one connection.
        requests: Number of requests of all clients together.
        max_seconds: When they end, even if there were fewer requests.
        mean_pause: Seconds that a client waits before each request, on the average: exponential.

    Returns:
        Dict of `seconds`, the latencies of the requests that were answered, and `errors`.
    """
    with (
        _connect(url, model) as client,
        concurrent.futures.ThreadPoolExecutor(clients) as pool,
    ):
        for row in rows[:5]:
            _predict(client, signature, row)
        ends, numbers = time.perf_counter() + max_seconds, itertools.count()

        def send(seed):
            generator, found = np.random.default_rng(seed), []
            while (number := next(numbers)) < requests and time.perf_counter() < ends:
                time.sleep(generator.exponential(mean_pause))
                began = time.perf_counter()
                is_answered = _is_answered(client, signature, rows[number % len(rows)])
                found.append((is_answered, time.perf_counter() - began))
            return found

        asking = [pool.submit(send, seed) for seed in range(clients)]
        results = [result for answers in asking for result in answers.result()]
    answered = [seconds for is_answered, seconds in results if is_answered]
    return {"seconds": answered, "errors": len(results) - len(answered)}


def _connect(url, model):
    from keras_attention.export.serving import Client

    return Client(url, model, timeout=60, retries=0)


def _predict(client, signature, row):
    client.predict(signature, **{name: [value] for name, value in row.items()})


def _is_answered(client, signature, row):
    """Asks one row and returns whether there was an answer, not an error."""
    from keras_attention.export.serving import ServingError

    try:
        _predict(client, signature, row)
    except ServingError:
        return False
    return True


if __name__ == "__main__":
    words = json.loads(sys.stdin.readline())
    load = {"ask": ask, "ask_in_turn": ask_in_turn}[words.pop("load")]
    print(json.dumps(load(**words)))
