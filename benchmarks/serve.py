"""Serving: latency and throughput of the development server, every answer checked.

    python -m benchmarks serve
    python -m benchmarks serve --clients 64 --protocols grpc --requests 100000
    python -m benchmarks serve --width 256 --layers 3 --length 32 --requests 200
    python -m benchmarks serve --plan served/de-en --load 200 --percentile 95 --latency-ms 300

A Transformer with random weights is exported and served by `keras_attention.export.serve` in a
process of its own. Clients, each a thread with a connection of its own, ask for one text at a
time, the next one as soon as the last is answered; an answer is wrong ("mixed up") if its texts
are not those that the exported version gives to that text alone, asked without a server, or its
scores differ by more than 1e-5. The server batches nothing, so its throughput is that of single
sentences; TensorFlow's model server, which is for production, is not measured.

More rows: what raw text costs over ids (tokenizers in the graph), one text and 32 at a time, asked
in turn without a server; how long the server takes until it answers; and its first answer against
the median.

With `--plan` an exported version, or this Transformer, is measured instead, in batches of 1, 2,
4 ... rows and through the server, and each setting of batching and threads is simulated
(`serving_queue.py`): the report has the setting of the fewest replicas. `--check` compares with the
server under load, and says whether the machine was idle enough for that.
"""

import concurrent.futures
import contextlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks import report as reports
from benchmarks import serving_plan
from benchmarks.arguments import add_number
from benchmarks.harness import ROOT, BenchmarkError, side_environment

REPEATS = 15
MODEL = "benchmark"
TOLERANCE = 1e-5
START_SECONDS = 300
# Texts of a call, where text is held against ids, and how often each is asked in a round: a call
# of one is short, and by nine of them text once cost 18 % where it costs nothing.
TOGETHER = {1: 5, 32: 1}
SYLLABLES = [first + last for first in "bdfgklmnprstvz" for last in "aeiou"]


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared flags are there already."""
    load = parser.add_argument_group("load")
    add_number(load, "--requests", 600, "requests of each row of the table")
    load.add_argument(
        "--clients", type=int, nargs="+", default=[1, 8, 64], help="at once (default: 1 8 64)"
    )
    load.add_argument("--protocols", choices=["grpc", "http"], nargs="+", default=["grpc", "http"])
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--width", 64, "units of embeddings and layers"),
        ("--layers", 1, "layers of encoder and of decoder"),
        ("--heads", 4, "heads"),
        ("--vocabulary", 500, "tokens in each of the two vocabularies"),
        ("--length", 12, "longest output in tokens"),
        ("--beam-width", 4, "hypotheses kept and returned"),
        ("--texts", 100, "different texts that are asked"),
        ("--words", 12, "words of the longest text"),
    ):
        add_number(sizes, flag, default, text)
    sizes.add_argument(
        "--tokens",
        choices=["words", "sentencepiece"],
        default="words",
        help="how texts are cut into tokens (default: %(default)s)",
    )
    serving_plan.add_arguments(parser)


def run(arguments, command: str, progress) -> dict:
    """Measures everything and returns the filled report.

    Raises:
        BenchmarkError: If the server does not start.
    """
    if arguments.plan is True:
        with tempfile.TemporaryDirectory() as folder:
            progress("exporting")
            version, _ = export_model(Path(folder) / MODEL, arguments)
            rows = [{"text": text} for text in example_texts(arguments)]
            return serving_plan.run(arguments, command, progress, version, rows)
    if arguments.plan is not None:
        return serving_plan.run(arguments, command, progress)
    names = ("requests", "clients", "protocols", "width", "layers", "heads", "vocabulary")
    names += ("length", "beam_width", "texts", "words", "tokens", "threads")
    settings = {name: getattr(arguments, name) for name in names}
    title = (
        f"Serving a Transformer: {arguments.layers} + {arguments.layers} layers, width "
        f"{arguments.width}, beam {arguments.beam_width}, up to {arguments.length} tokens, "
        f"{arguments.requests:,} requests of one text a row, {arguments.threads} threads"
    )
    report = reports.new_report("serve", title, command, settings)
    report["columns"] = ["what", "clients", "requests/s", "p50", "p95", "p99", "errors", "mixed up"]
    os.environ.update(side_environment(arguments.threads))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / MODEL
        progress("exporting")
        version, source = export_model(base, arguments)
        texts = example_texts(arguments)
        progress("asking without a server")
        expected, overhead = offline(version, source, texts, arguments.repeats, progress)
        progress("starting the server")
        with ServerProcess(base, arguments.threads) as server:
            first = first_answers(server.urls["grpc"], texts[0])
            for protocol, clients in itertools.product(arguments.protocols, arguments.clients):
                progress(f"{protocol}, {clients} clients")
                load = Load(server.urls[protocol], texts, expected)
                fill(report, protocol, clients, load.run(arguments.requests, clients))
    fill_notes(report, overhead, server.start_seconds, first)
    return report


def export_model(base, arguments):
    """Exports a Transformer with random weights; returns the version and the source tokenizer."""
    import keras

    from examples.models import transformer
    from keras_attention.export import SearchOptions, export_translator, tokenizers

    if arguments.tokens == "words":
        corpus, options = [" ".join(_words(arguments.vocabulary))], {}
    else:
        corpus = sentences(4 * arguments.vocabulary, arguments.vocabulary, arguments.words, seed=2)
        options = {"vocabulary_size": arguments.vocabulary}
    source, target = (tokenizers.train(arguments.tokens, corpus, **options) for _ in range(2))
    keras.utils.set_random_seed(1)
    model = transformer.build(
        source.vocabulary_size,
        target.vocabulary_size,
        units=arguments.width,
        layers=arguments.layers,
        heads=arguments.heads,
        dropout=0.0,
    )
    version = export_translator(
        model,
        base,
        source=source,
        target=target,
        search=SearchOptions(beam_width=arguments.beam_width, max_length=arguments.length),
    )
    return version, source


def example_texts(arguments) -> list[str]:
    """Returns different texts of 1 to `--words` words."""
    return sentences(arguments.texts, arguments.vocabulary, arguments.words, seed=1)


def sentences(count: int, vocabulary: int, words: int, seed: int) -> list[str]:
    """Returns texts of 1 to `words` of `vocabulary` made-up words."""
    generator = np.random.default_rng(seed)
    known = np.array(_words(vocabulary), dtype=object)
    return [
        " ".join(known[generator.integers(vocabulary, size=number % words + 1)])
        for number in range(count)
    ]


def _words(count):
    """Returns different words of two or three syllables."""
    generator, size = np.random.default_rng(3), len(SYLLABLES)
    numbers = generator.choice(size**3 + size**2, size=count, replace=False)
    parts = [(n // size**2, n // size % size, n % size) for n in numbers]  # the first may be ""
    return ["".join([*SYLLABLES, ""][part] for part in word) for word in parts]


def offline(version, source, texts, repeats, progress):
    """Returns each text's answer without a server, and the seconds of text and ids by count."""
    run = load(version)
    expected = [run("serving_default", {"text": [text]}) for text in texts]
    seconds = {count: {"text": [], "ids": []} for count in TOGETHER}
    longest = sorted(texts, key=len, reverse=True)
    for count, found in seconds.items():
        asked = (longest * count)[:count]
        ids, length = (np.asarray(tensor) for tensor in source.encode(asked, None))
        asks = {
            "text": ("serving_default", {"text": asked}, ()),
            "ids": ("ids", {"ids": ids, "length": length}, ("ids", "score")),
        }
        rounds = repeats * TOGETHER[count]
        for number in range(rounds + 1):
            progress(f"text and ids, {count} together, round {number} of {rounds}")
            for name, ask in asks.items():
                started = time.perf_counter()
                run(*ask)
                if number:  # the first call of each builds its graph
                    found[name].append(time.perf_counter() - started)
    return expected, seconds


def load(version, config=None):
    """Returns `run(signature, inputs, outputs)` of a SavedModel in a session, as servers do."""
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(version)).signature_def

    def run(signature, inputs, outputs=()):
        signature = signatures[signature]
        wanted = {name: signature.outputs[name].name for name in outputs or signature.outputs}
        feeds = {signature.inputs[name].name: value for name, value in inputs.items()}
        return session.run(wanted, feeds)

    return run


class ServerProcess:
    """The development server in a process of its own, on free ports; use as a context manager.

    Args:
        base: Base directory of the model, which is served as `MODEL`.
        threads: Requests that run at once, and threads of TensorFlow.
        flags: More flags of the server.
        environment: Environment variables that replace those of `side_environment`.

    Attributes:
        urls: Dict from `"grpc"` and `"http"` to what a client is given.
        start_seconds: Time from its start until it answers, Python's and the warm-up's included.
        pid: The id of the process.
    """

    def __init__(
        self,
        base,
        threads: int,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ):
        started = time.perf_counter()
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "keras_attention.export.serve", str(base), "--port", "0"]
            + ["--rest-api-port", "0", "--name", MODEL, "--max-concurrency", str(threads), *flags],
            cwd=ROOT,
            env=side_environment(threads) | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.pid = self._process.pid
        giving_up = threading.Timer(START_SECONDS, self._process.kill)
        giving_up.start()
        self.urls, is_ready = {}, False
        for line in self._process.stdout:
            found = re.search(r"(grpc|http)://[^/]+", line)
            if found:
                self.urls[found[1]] = found[0]
            if is_ready := line.startswith("Ready"):  # the addresses come before the loading
                break
        giving_up.cancel()
        self.start_seconds = time.perf_counter() - started
        if not is_ready:
            self._errors.seek(0)
            words = self._errors.read()[-500:]
            self.__exit__()
            raise BenchmarkError(f"The server did not start: {words!r}")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def first_answers(url: str, text: str, count: int = 100) -> dict:
    """Returns the seconds of the first answer after a start, and the median of the next ones."""
    from keras_attention.export.serving import Client

    seconds = []
    with Client(url, MODEL) as client:
        client.signatures()
        for _ in range(count + 1):
            started = time.perf_counter()
            client.predict(text=[text])
            seconds.append(time.perf_counter() - started)
    return {"first_seconds": seconds[0], "median_seconds": float(np.median(seconds[1:]))}


class Load:
    """Clients that ask one text after the other and check every answer.

    Args:
        url: Where the server is.
        texts: What is asked, in turn.
        expected: The outputs of each text.
    """

    def __init__(self, url: str, texts: list[str], expected: list[dict]):
        self._url, self._texts, self._expected = url, texts, expected

    def run(self, requests: int, clients: int) -> dict:
        """Returns `seconds` (a list), `errors`, `mixed_up` and `elapsed_seconds`."""
        numbers, lock = iter(range(requests)), threading.Lock()
        ready = threading.Barrier(clients + 1)
        result = {"seconds": [], "errors": 0, "mixed_up": 0}
        with concurrent.futures.ThreadPoolExecutor(clients) as threads:
            asking = [
                threads.submit(self._ask, numbers, lock, ready, result) for _ in range(clients)
            ]
            broken = threading.BrokenBarrierError
            with contextlib.suppress(broken):
                ready.wait()
            started = time.perf_counter()
            errors = filter(None, [future.exception() for future in asking])
            for error in sorted(errors, key=lambda error: isinstance(error, broken)):
                raise error  # what broke the barrier first
        return {**result, "elapsed_seconds": time.perf_counter() - started}

    def _ask(self, numbers, lock, ready, result):
        from keras_attention.export.serving import Client, ServingError

        with Client(self._url, MODEL, timeout=120) as client:
            try:
                client.signatures()
            except BaseException:
                ready.abort()  # nobody waits for this client
                raise
            ready.wait()
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                index, mixed_up, error = number % len(self._texts), 0, 0
                started = time.perf_counter()
                try:
                    outputs = client.predict(text=[self._texts[index]])
                    mixed_up = not same(outputs, self._expected[index])
                except ServingError:
                    error = 1
                seconds = time.perf_counter() - started
                with lock:
                    result["seconds"].append(seconds)
                    result["errors"] += error
                    result["mixed_up"] += mixed_up


def same(outputs: dict, expected: dict) -> bool:
    """Whether the texts are the same and the scores within 1e-5."""
    texts = [text.decode() for text in expected["text"].ravel()]
    scores = np.allclose(outputs["score"], expected["score"], rtol=TOLERANCE, atol=TOLERANCE)
    return outputs["text"].ravel().tolist() == texts and bool(scores)


def fill(report: dict, protocol: str, clients: int, result: dict) -> None:
    """Writes the row and the line of one load into `report`."""
    seconds = result.pop("seconds")
    shares = {f"p{share}": float(np.percentile(seconds, share)) for share in (50, 95, 99)}
    rate = len(seconds) / result["elapsed_seconds"]
    row = {"name": protocol, "clients": clients, "requests": len(seconds)}
    report["rows"].append({**row, "requests_per_second": rate, **shares, **result})
    report["lines"].append(
        [protocol, str(clients), f"{rate:,.1f}"]
        + [reports.seconds_text(value) for value in shares.values()]
        + [str(result["errors"]), str(result["mixed_up"])]
    )


def fill_notes(report: dict, overhead: dict, start_seconds: float, first: dict) -> None:
    """Writes what was measured beside the loads into `report`."""
    ratio = first["first_seconds"] / first["median_seconds"]
    for count, seconds in overhead.items():
        text, ids = (float(np.median(seconds[name])) for name in ("text", "ids"))
        fastest = min(seconds["text"]) / min(seconds["ids"])
        row = {"name": "text over ids", "texts": count, "text_seconds": text, "ids_seconds": ids}
        report["rows"].append({**row, "ratio": text / ids, "ratio_of_fastest": fastest})
        report["notes"].append(
            f"Text over ids, {count} in a call: {reports.seconds_text(text)} against "
            f"{reports.seconds_text(ids)}, {100 * (text / ids - 1):+.1f} %; the fastest calls "
            f"{100 * (fastest - 1):+.1f} %."
        )
    report["rows"].append(
        {"name": "first answer", "start_seconds": start_seconds, **first, "ratio": ratio}
    )
    report["notes"] += [
        f"Started and warmed up in {start_seconds:.1f} s; the first answer took "
        f"{reports.seconds_text(first['first_seconds'])}, {ratio:.2f} times the median of the "
        "next ones.",
        "Clients are threads of one Python process and share the machine with the server: many of "
        "them measure Python as well.",
    ]
