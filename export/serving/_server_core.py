"""Handles requests independently of the protocol: predictions, metadata and version states."""

import math
import time
import typing
from collections.abc import Callable

import numpy as np

from keras_attention.export._argparse_types import MAX_SECONDS
from keras_attention.export.serving._bounded_request_queue import RequestQueue
from keras_attention.export.serving._malloc_trim import schedule_trim
from keras_attention.export.serving._tensor_protos import check_num_rows
from keras_attention.export.serving.errors import (
    ServingError,
    check_deadline,
    invalid_argument,
    response_too_long,
)
from keras_attention.export.serving.served_model import ServedModel

DEFAULT_MODEL = "model"
MAX_BATCH_SIZE = 4096
MAX_RESPONSE_BYTES = 256 * 2**20
MAX_UNPROBED_BATCH = 16  # larger batches run a few rows first if the response may be large
MAX_PART_ROWS = 128  # larger batches run in parts if the response may be large
LARGE_RESPONSE_BYTES = 8 * 2**20  # after larger responses, free memory is returned to the system


class Writer(typing.Protocol):
    """The interface of a protocol's writer of outputs."""

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns an estimate of the bytes of the response."""

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None):
        """Returns the outputs in the form of the protocol."""


class ServerCore:
    """A fixed table of models behind a bounded queue.

    Names in requests select loaded objects only; they never cause a file to be opened or loaded.
    If there is one model, it also has the name `model`, the default name in the Docker image of
    TensorFlow Serving.

    Args:
        models: List of `ServedModel`.
        request_queue: A `RequestQueue`.
        max_batch_size: Maximum number of examples of a request.
        max_response_bytes: Maximum size of a response.
    """

    def __init__(
        self,
        models: list[ServedModel],
        request_queue: RequestQueue,
        max_batch_size: int = MAX_BATCH_SIZE,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ):
        self.models = {model.name: model for model in models}
        self.request_queue, self.max_batch_size = request_queue, max_batch_size
        self.max_response_bytes = max_response_bytes

    def predict(
        self,
        model: str,
        version: int | None,
        label: str | None,
        signature: str,
        inputs: dict[str, np.ndarray] | Callable,
        outputs: tuple[str, ...] = (),
        timeout: float | None = None,
        writer: Writer | None = None,
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Returns the version that answered and the outputs of one of its signatures.

        Args:
            model: Name of the model.
            version: The version wanted, None for the highest one.
            label: A label instead of a version, or None.
            signature: Name of the signature, "" for the default one.
            inputs: Dict of arrays, or a function that returns it. The function is called with the
                `SignatureDef` and the deadline when the request has its turn, so that the queue
                bounds how many requests are read at once.
            outputs: Names of the outputs wanted, all if empty.
            timeout: Seconds that the answer may take, the queue and the writing included. A
                request in the queue holds its version, as in the model server.
            writer: What the outputs are written with, by default returned as they are.

        Raises:
            ServingError: If there is no answer.
        """
        deadline = compute_deadline(timeout)
        with self.acquire(model, version, label) as (found, loaded):
            return found, self.run(loaded, signature, inputs, outputs, deadline, writer)

    def run(
        self,
        loaded,
        signature: str,
        inputs: dict[str, np.ndarray] | Callable,
        outputs=(),
        deadline: float | None = None,
        writer: Writer | None = None,
    ):
        """Returns the written outputs of a signature of a version that `acquire` holds.

        Args:
            loaded: The `LoadedVersion`.
            signature, inputs, outputs, writer: As `predict` takes them.
            deadline: Time on `time.monotonic()` after which the client has given up.

        Raises:
            ServingError: If the request fails, or its response would be too long.
        """
        if not callable(inputs):
            for name, array in inputs.items():
                check_num_rows(name, len(array) if array.ndim else 0, self.max_batch_size)
        with self.request_queue.acquire_slot(deadline):
            if callable(inputs):
                inputs = inputs(loaded.signature(signature), deadline)
            if writer is None:
                return loaded.run(signature, inputs, outputs, deadline)
            return self._run_and_write(loaded, signature, inputs, outputs, deadline, writer)

    def _run_and_write(self, loaded, signature, inputs, outputs, deadline, writer):
        num_bytes = 0
        try:
            num_rows = _count_equal_rows(inputs)
            if num_rows > MAX_UNPROBED_BATCH and loaded.has_two_unknown_sizes(signature, outputs):
                num_bytes = LARGE_RESPONSE_BYTES + 1
                found = self._run_in_parts(loaded, signature, inputs, outputs, deadline, writer)
            else:
                found = loaded.run(signature, inputs, outputs, deadline)
            num_bytes = writer.size(found)
            if num_bytes > self.max_response_bytes:
                raise response_too_long(self.max_response_bytes)
            return writer.write(found, deadline)
        finally:
            if num_bytes > LARGE_RESPONSE_BYTES:
                schedule_trim()

    def _run_in_parts(self, loaded, signature, inputs, outputs, deadline, writer):
        """Runs a signature whose response may be large; raises once it is known to be too long.

        If an output grows with two lengths, as an alignment does, a few rows that may be the
        longest run first, to estimate the bytes of a row. Only the model knows which rows are the
        longest, so large batches run in parts.
        """

        def run(rows):
            part = {name: array[rows] for name, array in inputs.items()}
            return loaded.run(signature, part, outputs, deadline)

        num_rows = _count_equal_rows(inputs)
        probes = _choose_probes(inputs, num_rows)
        found = run(probes)
        has_rows = all(array.ndim and len(array) == len(probes) for array in found.values())
        sizes = [
            writer.size({name: array[row : row + 1] for name, array in found.items()})
            if has_rows
            else writer.size(found)
            for row in range(len(probes))
        ]
        self._check_size(max(sizes), num_rows)
        if num_rows <= MAX_PART_ROWS or not has_rows:
            return loaded.run(signature, inputs, outputs, deadline)
        parts, row_size = [], _PaddedRowSize(writer)
        for start in range(0, num_rows, MAX_PART_ROWS):
            check_deadline(deadline, "while the model was run")
            parts.append(run(slice(start, start + MAX_PART_ROWS)))
            row_size.add(parts[-1])
            self._check_size(row_size.compute(), num_rows)
        if all(
            len({part[name].shape[1:] for part in parts}) == 1
            and sum(len(part[name]) for part in parts) == num_rows
            for name in found
        ):
            return {name: np.concatenate([part.pop(name) for part in parts]) for name in found}
        # Only the model knows how it pads shorter parts. The response is known to fit now; outputs
        # that are not in it may not, so none of them are fetched.
        del parts
        return loaded.run(signature, inputs, outputs, deadline, prepare=True)

    def _check_size(self, row_size, num_rows):
        """Raises if rows of `row_size` bytes are too many; the message says how many fit."""
        fit = int(0.95 * self.max_response_bytes / max(row_size, 1))
        if fit < num_rows:
            advice = (
                f"Send at most {fit:,} examples like the longest of these in a request."
                if fit
                else "One example takes more."
            )
            raise response_too_long(self.max_response_bytes, advice)

    def acquire(self, model: str, version: int | None, label: str | None):
        """Returns a context manager for `(number, LoadedVersion)`; it keeps the version loaded."""
        if not model:
            raise invalid_argument("ModelSpec has no name specified.")
        served = self._find_model(model)
        if served is None:
            wanted = f"Latest({model})" if version is None else f"Specific({model}, {version})"
            raise ServingError("NOT_FOUND", f"Servable not found for request: {wanted}")
        return served.acquire(version, label)

    def metadata(self, model: str, version: int | None, label: str | None) -> tuple[int, dict]:
        """Returns the number of a version and its `SignatureDef`s by name."""
        with self.acquire(model, version, label) as (found, loaded):
            return found, loaded.signatures

    def states(self, model: str, version: int | None) -> dict:
        """Returns the states of all versions of a model, or of one version."""
        served = self._find_model(model)
        states = served.states() if served is not None else {}
        if version is None:
            if not states:
                raise ServingError("NOT_FOUND", f"Could not find any versions of model {model}")
            return states
        if version not in states:
            raise ServingError("NOT_FOUND", f"Could not find version {version} of model {model}")
        return {version: states[version]}

    def close(self) -> None:
        """Unloads every model."""
        for model in self.models.values():
            model.close()

    def _find_model(self, name):
        if name == DEFAULT_MODEL and len(self.models) == 1:
            return next(iter(self.models.values()))
        return self.models.get(name)


class _PaddedRowSize:
    """Bytes of a row that is padded to the longest of all parts of an answer."""

    def __init__(self, writer):
        self._writer, self._totals = writer, {}

    def add(self, outputs):
        """Adds the outputs of a part."""
        for name, array in outputs.items():
            num_bytes, num_values, shape = self._totals.get(name, (0, 0, array.shape[1:]))
            self._totals[name] = (
                num_bytes + self._writer.size({name: array}),
                num_values + array.size,
                tuple(map(max, shape, array.shape[1:])),
            )

    def compute(self):
        """Returns an estimate from all parts so far."""
        return sum(
            num_bytes / max(num_values, 1) * math.prod(shape)
            for num_bytes, num_values, shape in self._totals.values()
        )


def _count_equal_rows(inputs):
    """Returns how many rows all inputs have; 0 if they differ or one has none."""
    counts = {len(array) if array.ndim else 0 for array in inputs.values()}
    return counts.pop() if len(counts) == 1 else 0


def _choose_probes(inputs, num_rows):
    """Returns the indices of rows that may be the longest.

    The model counts tokens, which are not known here: the longest by bytes and by characters,
    those with the largest number (a length, say), and some evenly spaced.
    """
    rows = np.linspace(0, num_rows - 1, 4, dtype=int).tolist()
    for array in inputs.values():
        if array.dtype.kind == "O":
            for measure in (len, _count_characters):
                lengths = np.fromiter(map(measure, array.flat), int, array.size)
                rows += np.argsort(lengths.reshape(num_rows, -1).sum(axis=1))[-2:].tolist()
        elif array.ndim == 1 and array.dtype.kind in "iu":
            rows.append(int(np.argmax(array)))
    return np.unique(rows)


def _count_characters(text):
    return len(text.decode("utf-8", "replace"))


def compute_deadline(timeout: float | None) -> float | None:
    """Returns the time on `time.monotonic()` in `timeout` seconds, at most an hour.

    Returns None, no limit, if `timeout` is None or infinite.
    """
    if timeout is None or math.isinf(timeout):
        return None
    return time.monotonic() + min(timeout, MAX_SECONDS)
