"""Mixed requests over gRPC and REST while versions are swapped: none wrong, none lost.

    python tests/export/serving/soak.py --requests 100000 --clients 64

The development server runs in a process of its own. A new version of a small model is put into
its directory whenever the newest is live; every version answers differently. Half of the clients,
each a thread with a connection of its own, speak gRPC and half REST. An answer is wrong unless all
of it is what one version says to the request alone, asked in this process, and that version was
live or became live while the request was under way. One request in ten breaks a rule and must be
refused. UNAVAILABLE (503), the status of a server that is full or away, is asked again. A request
with any other error, or without an answer in `--timeout` seconds, is lost.
"""

import argparse
import collections
import concurrent.futures
import itertools
import pathlib
import shutil
import sys
import tempfile
import threading
import time

import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parents[2])]

from benchmarks.serve import MODEL, ServerProcess  # noqa: E402
from keras_attention.export._digest_manifest import write_manifest  # noqa: E402
from keras_attention.export.serving import Client, ServingError  # noqa: E402
from keras_attention.export.serving._loaded_version import LoadedVersion  # noqa: E402
from keras_attention.export.serving._tensor_protos import encode_strings  # noqa: E402

NUM_EXPORTS = 5
WORDS = ["a", "man", "runs", "ä", "犬"]
BROKEN = {"signature": "FAILED_PRECONDITION", "input": "INVALID_ARGUMENT"}
KEPT_VERSIONS = 3  # on disk; the server loads the newest only


class SwappedModel(tf.Module):
    """Looks words up in a table and multiplies by a variable, both of its version alone."""

    def __init__(self, number: int):
        super().__init__()
        values = [f"{word}/{number}" for word in WORDS]
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(WORDS, values), f"?/{number}"
        )
        generator = np.random.default_rng(number)
        self.matrix = tf.Variable(generator.normal(size=(8, 8)), dtype=tf.float32)

    def signatures(self) -> dict:
        """Returns the functions to be saved."""
        text = tf.TensorSpec([None], tf.string, name="text")
        x = tf.TensorSpec([None, 8], tf.float32, name="x")
        return {
            "serving_default": tf.function(self.look_up, input_signature=[text]),
            "product": tf.function(self.multiply, input_signature=[x]),
        }

    def look_up(self, text):
        return {"text": self.table.lookup(text), "upper": tf.strings.upper(self.table.lookup(text))}

    def multiply(self, x):
        product = x @ self.matrix
        return {"product": product, "sum": tf.reduce_sum(product, axis=1)}


class Exports:
    """Different versions of the small model, and what each says to every request of a pool."""

    def __init__(self, folder, pool: int = 40, seed: int = 0):
        generator = np.random.default_rng(seed)
        self.requests = [_draw_request(generator) for _ in range(pool)]
        self.paths, self.answers = [], []
        for number in range(NUM_EXPORTS):
            path, model = pathlib.Path(folder) / str(number), SwappedModel(number)
            tf.saved_model.save(model, str(path), signatures=model.signatures())
            write_manifest(path)
            self.paths.append(path)
            with LoadedVersion(path) as loaded:
                self.answers.append([loaded.run(*request) for request in self.requests])

    def publish(self, base, version: int) -> None:
        """Puts a version into the base directory at once, and removes those of long ago."""
        base = pathlib.Path(base)
        beside = base / f".{version}.part"
        shutil.copytree(self.paths[version % NUM_EXPORTS], beside)
        beside.rename(base / str(version))
        shutil.rmtree(base / str(version - KEPT_VERSIONS), ignore_errors=True)


class Soak:
    """Clients that ask and check while versions are swapped.

    Args:
        urls: Where the server is, one client after the other.
        base: Base directory of the model, version 1 in it.
        exports: The `Exports`.
        seed: Int; with a request's number it says what is asked.
        timeout: Seconds in which a request must have its answer, repeats included.
        progress: Called with the soak after every thousandth request.
    """

    def __init__(self, urls, base, exports, seed: int = 0, timeout: float = 120.0, progress=None):
        self._urls, self._base, self._exports = list(urls), base, exports
        self._seed, self._timeout, self._progress = seed, timeout, progress
        self.live = self.newest = 1
        self.counts, self.failures = collections.Counter(), []
        self._lock, self._stopping = threading.Lock(), threading.Event()

    def run(self, requests: int, clients: int, swaps: int = 0) -> None:
        """Asks until as many requests are asked and as many new versions have become live."""
        numbers = itertools.count()
        with concurrent.futures.ThreadPoolExecutor(clients + 1) as pool:
            swapping = pool.submit(self._swap)
            asking = [
                pool.submit(self._ask_all, client, numbers, requests, swaps)
                for client in range(clients)
            ]
            try:
                for future in asking:
                    future.result()
            finally:
                self._stopping.set()
            swapping.result()

    def judge(self, number: int, outputs: dict, since: int, until: int) -> str | None:
        """Returns what is wrong with an answer, None if nothing is.

        Args:
            number: Number of the request in the pool.
            outputs: The answer.
            since: The version that was live when the request was sent.
            until: The newest version there was when the answer came.
        """
        for version in range(since, until + 1):
            expected = self._exports.answers[version % NUM_EXPORTS][number]
            if _is_same(outputs, expected):
                return None
        return f"pool {number}: no answer of the versions {since} to {until}: {outputs}"

    def _swap(self):
        with Client(self._urls[0], MODEL, timeout=self._timeout, retries=100) as client:
            while not self._stopping.wait(0.02):
                if client.status().get(self.newest) != "AVAILABLE":
                    continue
                self.live = self.newest
                self.newest += 1  # before the server can see it
                self._exports.publish(self._base, self.newest)

    def _ask_all(self, client_number, numbers, requests, swaps):
        url = self._urls[client_number % len(self._urls)]
        with Client(url, MODEL, timeout=self._timeout, retries=0) as client:
            while True:
                with self._lock:
                    number = next(numbers)
                if self._stopping.is_set() or number >= requests and self.live > swaps:
                    return
                failure = self._ask(client, number)
                with self._lock:
                    self.counts["requests"] += 1
                    self.counts[url.partition(":")[0]] += 1
                    if failure:
                        self.failures.append(f"request {number}: {failure}")
                    if self._progress and self.counts["requests"] % 1000 == 0:
                        self._progress(self)

    def _ask(self, client, number):
        generator = np.random.default_rng([self._seed, number])
        index = int(generator.integers(len(self._exports.requests)))
        signature, inputs = self._exports.requests[index]
        kind = generator.choice([*BROKEN, "none"], p=[0.05, 0.05, 0.9])
        if kind == "signature":
            signature += "x"
        elif kind == "input":
            inputs = {"another": next(iter(inputs.values()))}
        since, deadline = self.live, time.monotonic() + self._timeout
        while True:
            try:
                outputs = client.predict(signature, **inputs)
            except ServingError as error:
                if error.code == "UNAVAILABLE" and time.monotonic() < deadline:
                    self._count("UNAVAILABLE, asked again")
                    time.sleep(generator.uniform(0.02, 0.2))
                    continue
                if error.code == BROKEN.get(kind):
                    self._count("refused as they must be")
                    return None
                self._count("lost")
                return f"{signature}: {error}"
            if kind != "none":
                self._count("wrong")
                return f"{signature} was answered, not refused"
            failure = self.judge(index, outputs, since, self.newest)
            self._count("wrong" if failure else "right")
            return failure

    def _count(self, name):
        with self._lock:
            self.counts[name] += 1


def _draw_request(generator):
    rows = int(generator.integers(1, 6))
    if generator.random() < 0.6:
        texts = generator.choice([*WORDS, "unknown"], rows).tolist()
        return "serving_default", {"text": encode_strings([text.encode() for text in texts])}
    return "product", {"x": generator.normal(size=(rows, 8)).astype("float32")}


def _is_same(outputs, expected):
    return set(outputs) == set(expected) and all(
        _is_same_array(outputs[name], array) for name, array in expected.items()
    )


def _is_same_array(found, expected):
    if expected.dtype.kind == "O":
        return found.tolist() == [text.decode() for text in expected.tolist()]
    return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-5, atol=1e-5)


def main(arguments: list[str] | None = None) -> int:
    """Soaks the development server; returns 1 if an answer was wrong or lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--swaps", type=int, default=2, help="new versions, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="requests that run at once")
    parser.add_argument("--max-queue", type=int, default=48, help="requests that wait")
    parser.add_argument("--timeout", type=float, default=120.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "served"
        base.mkdir()
        exports = Exports(pathlib.Path(folder) / "exports", seed=options.seed)
        exports.publish(base, 1)
        flags = ["--max-queue", str(options.max_queue)]
        with ServerProcess(base, options.threads, flags) as server:
            urls = [server.urls["grpc"], server.urls["http"]]
            started = time.monotonic()

            def report(soak):
                seconds = time.monotonic() - started
                print(
                    f"{dict(soak.counts)}, {soak.live - 1} new versions live, "
                    f"{len(soak.failures)} failures, {seconds:.0f} s",
                    flush=True,
                )

            soak = Soak(urls, base, exports, options.seed, options.timeout, report)
            soak.run(options.requests, options.clients, options.swaps)
            report(soak)
    for failure in soak.failures[:100]:
        print(failure)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
