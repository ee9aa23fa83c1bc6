"""Random requests against an exported translator: each answer is the offline one, or an error.

    python tests/export/serving/fuzz.py --requests 1000000
    python tests/export/serving/fuzz.py --over grpc --seed 5 --only 1234
    python tests/export/serving/fuzz.py --run runs/dates --path served/dates/1

A request is drawn from the seed and its number alone, so that one that fails can be repeated
(`--only`). Three in five are fit to be answered: rows of a pool of odd texts and ids, whose
answers are those of the Keras model and the searches of the library, a row alone (`oracle.py`).
In a batch they must be the same, whoever the neighbors are. The others break a rule of the
signature, and must be refused with a code.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import pathlib
import sys
import tempfile
import time

import grpc
import numpy as np
from tensorflow_serving.apis import prediction_service_pb2_grpc

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from draws import KNOWN, Request, break_rule, draw_row, pad_ids, stack  # noqa: E402
from oracle import oracle_of_run, oracle_of_toy  # noqa: E402
from tiny_model import predict_request  # noqa: E402
from toy_export import same_row, write_toy  # noqa: E402

from keras_attention.export.serving import Client, Server, ServingError  # noqa: E402
from keras_attention.export.serving._tensor_protos import encode_strings, proto_to_array  # noqa: E402

REFUSALS = {"INVALID_ARGUMENT", "FAILED_PRECONDITION"}


class Fuzzer:
    """Draws requests and judges answers.

    Args:
        oracle: `oracle(signature, **inputs)` gives the outputs a batch of one row should have.
        signatures: Dict of the version's `SignatureDef`s.
        seed: Int; with a request's number it says what the request is.
        pool: Number of rows a signature.
    """

    def __init__(self, oracle, signatures, seed=0, pool=40):
        self._oracle, self._seed = oracle, seed
        self._definitions = {
            name: definition
            for name, definition in signatures.items()
            if definition.inputs and set(definition.inputs) <= KNOWN
        }
        generator = np.random.default_rng([seed, 2**31])
        self._pool, self._alone = {}, {}
        for name, definition in sorted(self._definitions.items()):
            self._pool[name] = [draw_row(generator, definition) for _ in range(pool)]
            self._alone[name] = [self._answer(name, row) for row in self._pool[name]]
        self.counts = collections.Counter()

    @property
    def signatures(self):
        """The names of the signatures that are asked."""
        return sorted(self._definitions)

    def request(self, number: int) -> Request:
        """Returns the request with that number."""
        generator = np.random.default_rng([self._seed, number])
        signature = str(generator.choice(self.signatures))
        rows = generator.integers(len(self._pool[signature]), size=generator.integers(0, 5))
        request = Request(signature, self._batch(generator, signature, rows), list(rows))
        return request if generator.random() < 0.6 else break_rule(generator, request)

    def failure(self, number: int, ask) -> str | None:
        """Returns what is wrong with the answer to a request, None if nothing is.

        Args:
            number: The request's.
            ask: `ask(signature, inputs, output_filter)` gives a dict of arrays, or raises a
                `ServingError`.
        """
        request = self.request(number)
        try:
            outputs = ask(request.signature, request.inputs, request.output_filter)
        except ServingError as error:
            self.counts[error.code] += 1
            if request.rows is None and error.code in REFUSALS:
                return None
            return f"request {number} ({request.signature}): {error}"
        self.counts["answered"] += 1
        if request.rows is None:
            return f"request {number} ({request.signature}) was answered, not refused"
        for index, row in enumerate(request.rows):
            found = {name: array[index] for name, array in outputs.items()}
            if not same_row(self._alone[request.signature][row], found):
                return f"request {number} ({request.signature}), row {index}: another answer"
        lengths = {len(array) for array in outputs.values()}
        if lengths != {len(request.rows)}:
            return f"request {number} ({request.signature}): {lengths} rows"
        return None

    def _answer(self, signature, row):
        if "ids" in row:  # as the signature reads it: what stands behind `length` is not there
            length = int(np.clip(row["length"], 0, len(row["ids"])))
            row = {"ids": row["ids"][:length], "length": np.int32(length)}
        inputs = {name: stack([value]) for name, value in row.items()}
        return {name: array[0] for name, array in self._oracle(signature, **inputs).items()}

    def _batch(self, generator, signature, rows):
        chosen = [self._pool[signature][row] for row in rows]
        inputs = {}
        for name, info in self._definitions[signature].inputs.items():
            values = [row[name] for row in chosen]
            if name == "ids":
                widest = max([0, *map(len, values)])
                values = [pad_ids(generator, row, widest) for row in chosen]
                inputs[name] = np.array(values, "int32").reshape(len(rows), widest)
            else:
                inputs[name] = stack(values, info)
        if "ids" in inputs:  # a row that is all there may say that it is longer
            full = [len(row["ids"]) == row["length"] == widest for row in chosen]
            inputs["length"][np.array(full, bool)] = 2**31 - 1
        return inputs


@contextlib.contextmanager
def connect(server, over: str):
    """Yields `ask(signature, inputs, output_filter)`: in the server's process, or over loopback."""
    if over == "process":
        core = server.core
        yield lambda signature, inputs, outputs: core.predict(
            "toy", None, None, signature, inputs, outputs
        )[1]
        return
    if over == "grpc":
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            yield lambda *request: _over_grpc(stub, *request)
        return
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "toy", retries=0) as client:
        client.signatures()
        yield lambda *request: _over_rest(client, *request)


def find_speakable(fuzzer, numbers):
    """Returns the numbers of requests that REST has words for: good ones with a row."""
    return [number for number in numbers if fuzzer.request(number).rows]


def find_joinable(fuzzer, numbers):
    """Returns the numbers of requests that a batching server takes: good ones, nothing empty."""
    return [
        number
        for number in find_speakable(fuzzer, numbers)
        if all(array.size for array in fuzzer.request(number).inputs.values())
    ]


def _over_grpc(stub, signature, inputs, output_filter):
    try:
        message = predict_request(signature, inputs, output_filter, model="toy")
        response = stub.Predict(message, timeout=60)
    except grpc.RpcError as error:
        raise ServingError(error.code().name, error.details()) from None
    return {name: proto_to_array(proto) for name, proto in response.outputs.items()}


def _over_rest(client, signature, inputs, output_filter):
    found = client.predict(signature, output_filter=output_filter, **inputs)
    return {
        name: encode_strings(array) if array.dtype.kind == "O" else array
        for name, array in found.items()
    }


def run_requests(fuzzer, ask, numbers, threads=4, progress=None) -> list[str]:
    """Asks all requests, several at once, and returns the failures (the first hundred)."""
    failures = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda number: fuzzer.failure(number, ask), numbers)
        for count, failure in enumerate(found, 1):
            if failure is not None:
                failures.append(failure)
            if progress is not None:
                progress(count, len(failures))
            if len(failures) == 100:
                pool.shutdown(cancel_futures=True)
                break
    return failures


def main(arguments=None) -> int:
    """Fuzzes a toy translator, or a version directory; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of the one request to make")
    parser.add_argument("--over", choices=["process", "grpc", "http"], default="process")
    parser.add_argument("--pool", type=int, default=400, help="odd rows a signature")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--path", type=pathlib.Path, help="a version directory; the toy if none")
    parser.add_argument("--run", type=pathlib.Path, help="the run that it was exported from")
    options = parser.parse_args(arguments)
    if (options.path is None) != (options.run is None):
        parser.error("expected --path and --run together")
    with tempfile.TemporaryDirectory() as folder:
        path = options.path or write_toy(pathlib.Path(folder) / "toy")
        oracle = oracle_of_run(options.run, path) if options.run else oracle_of_toy()
        started = time.monotonic()

        def progress(count, failures):
            if count % 1000 == 0:
                rate = count / (time.monotonic() - started)
                print(f"{count:,} requests, {failures} failures, {rate:,.0f}/s", flush=True)

        models = {"toy": path.parent}
        with Server(models, grpc_port=0, rest_api_port=0) as server:
            _, signatures = server.core.metadata("toy", None, None)
            fuzzer = Fuzzer(oracle, signatures, options.seed, options.pool)
            numbers = range(options.requests) if options.only is None else [options.only]
            if options.over == "http":
                numbers = find_speakable(fuzzer, numbers)
            with connect(server, options.over) as ask:
                failures = run_requests(fuzzer, ask, numbers, options.threads, progress)
    for failure in failures:
        print(failure)
    print(f"{sum(fuzzer.counts.values()):,} requests: {dict(fuzzer.counts)}")
    print(f"{len(failures)} failures in {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
