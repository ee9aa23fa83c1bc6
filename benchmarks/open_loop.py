"""An open-loop load in a process of its own: requests arrive at random, answered or not.

Reads one line of JSON, the arguments of `ask`, and writes one with the latencies. The time of a
request counts from when it was to arrive, so that a server that falls behind cannot slow the
clock.
"""

import concurrent.futures
import json
import sys
import time

import numpy as np

CONNECTION_THREADS = 128


def ask(
    url: str, model: str, signature: str, rows: list[dict], rate: float, requests: int, seed: int
) -> dict:
    """Sends single rows at the times of a Poisson process.

    Args:
        url: Where the server is.
        model: Its model.
        signature: The signature that is asked.
        rows: Inputs of one row each, drawn at random.
        rate: Requests a second.
        requests: Number of requests.
        seed: Seed of times and rows.

    Returns:
        Dict of `seconds`, the latencies of the requests that were answered, and `errors`.
    """
    from keras_attention.export.serving import Client, ServingError

    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.exponential(1 / rate, requests)).tolist()
    chosen = generator.integers(len(rows), size=requests).tolist()
    with (
        Client(url, model, timeout=60, retries=0) as client,
        concurrent.futures.ThreadPoolExecutor(CONNECTION_THREADS) as pool,
    ):
        for row in rows[:5]:
            client.predict(signature, **{name: [value] for name, value in row.items()})
        began = time.perf_counter()

        def send(arrival, row):
            try:
                client.predict(signature, **{name: [value] for name, value in row.items()})
            except ServingError:
                return None
            return time.perf_counter() - began - arrival

        answers = []
        for arrival, row in zip(due, chosen, strict=True):
            time.sleep(max(0.0, arrival - (time.perf_counter() - began)))
            answers.append(pool.submit(send, arrival, rows[row]))
        seconds = [answer.result() for answer in answers]
    answered = [second for second in seconds if second is not None]
    return {"seconds": answered, "errors": requests - len(answered)}


if __name__ == "__main__":
    print(json.dumps(ask(**json.loads(sys.stdin.readline()))))
