"""What is answered, whatever the protocol: models by name, predictions, metadata, states."""

import math
import time
import typing

import numpy as np

from keras_attention.export.argument_types import LONGEST_SECONDS
from keras_attention.export.serving.admission import Admission
from keras_attention.export.serving.allocator import trim_soon
from keras_attention.export.serving.errors import ServingError, invalid, too_long
from keras_attention.export.serving.models import ServedModel

DEFAULT_MODEL = "model"
MAX_ROWS = 4096
MAX_RESPONSE_BYTES = 256 * 2**20
UNTRIED_ROWS = 16  # more are tried by the longest of them, where an answer may be large
LARGE_ANSWER = 8 * 2**20  # bytes, after which memory is given back


class Writer(typing.Protocol):
    """How a protocol writes the outputs of a signature."""

    def size(self, outputs: dict[str, np.ndarray]) -> int:
        """Returns about how many bytes they take."""

    def write(self, outputs: dict[str, np.ndarray], deadline: float | None):
        """Returns them as written."""


class Service:
    """A fixed table of models behind a bounded queue.

    Nothing a request names is loaded, opened or run: a model is a key of the table, a version
    an int that is loaded or not, a signature a key of the version's own. A model that is alone
    is also called `model`, as the stock server's image calls the one it serves.

    Args:
        models: List of `ServedModel`.
        admission: An `Admission`.
        max_rows: Most rows of a request.
        max_response_bytes: Longest answer.
    """

    def __init__(
        self,
        models: list[ServedModel],
        admission: Admission,
        max_rows: int = MAX_ROWS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ):
        self.models = {model.name: model for model in models}
        self.admission, self.max_rows = admission, max_rows
        self.max_response_bytes = max_response_bytes

    def predict(
        self,
        model: str,
        version: int | None,
        label: str | None,
        signature: str,
        inputs: dict[str, np.ndarray],
        outputs: tuple[str, ...] = (),
        seconds: float | None = None,
        writer: Writer | None = None,
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Returns the version that answered and the outputs of one of its signatures.

        Args:
            model: Name of the model.
            version: The version wanted, None for the highest one.
            label: A label instead of a version, or None.
            signature: Name of the signature, "" for the default one.
            inputs: Dict of arrays.
            outputs: Names of the outputs wanted, all if empty.
            seconds: How long the answer may take, the queue and the writing included. A request
                in the queue holds its version, as in the model server.
            writer: What the outputs are written with, by default returned as they are.

        Raises:
            ServingError: If there is no answer.
        """
        deadline = deadline_in(seconds)
        with self.acquire(model, version, label) as (found, loaded):
            return found, self.run(loaded, signature, inputs, outputs, deadline, writer)

    def run(
        self,
        loaded,
        signature: str,
        inputs: dict,
        outputs=(),
        deadline: float | None = None,
        writer: Writer | None = None,
    ):
        """Returns the outputs of a signature of a version that `acquire` holds, as written.

        Args:
            loaded: The `LoadedVersion`.
            signature, inputs, outputs, writer: Those of `predict`.
            deadline: Time on `time.monotonic()` after which the answer is not wanted.

        Raises:
            ServingError: If there is no answer, or it would be too long.
        """
        for name, array in inputs.items():
            if array.ndim and len(array) > self.max_rows:
                raise invalid(
                    f"input {name} has {len(array)} rows, more than {self.max_rows}. Send them in "
                    "several requests."
                )
        with self.admission.slot(deadline):
            if writer is None:
                return loaded.run(signature, inputs, outputs, deadline)
            return self._written(loaded, signature, inputs, outputs, deadline, writer)

    def _written(self, loaded, signature, inputs, outputs, deadline, writer):
        large = False
        try:
            rows = self._affordable_rows(loaded, signature, inputs, outputs, deadline, writer)
            if rows is not None:
                advice = (
                    f"Send at most {rows:,} rows like the longest of these in a request."
                    if rows
                    else "One row takes more."
                )
                raise too_long(self.max_response_bytes, advice)
            found = loaded.run(signature, inputs, outputs, deadline)
            size = writer.size(found)
            large = size > LARGE_ANSWER
            if size > self.max_response_bytes:
                raise too_long(self.max_response_bytes)
            return writer.write(found, deadline)
        finally:
            if large:
                trim_soon()

    def _affordable_rows(self, loaded, signature, inputs, outputs, deadline, writer):
        """How many rows an answer may have, if fewer than there are; None if all may be run.

        Where an output grows with two lengths, as an alignment does, the longest row is run
        alone: what it takes is known before all rows take it.
        """
        num_rows = {len(array) if array.ndim else 0 for array in inputs.values()}
        if len(num_rows) != 1 or max(num_rows) <= UNTRIED_ROWS:
            return None
        if not loaded.has_two_lengths(signature, outputs):
            return None
        lengths = [
            np.fromiter(map(len, array.flat), int, array.size).reshape(len(array), -1).sum(axis=1)
            for array in inputs.values()
            if array.dtype.kind == "O"
        ]
        longest = int(np.argmax(sum(lengths))) if lengths else 0
        row = {name: array[longest : longest + 1] for name, array in inputs.items()}
        size = writer.size(loaded.run(signature, row, outputs, deadline))
        rows = int(0.95 * self.max_response_bytes / max(size, 1))
        return rows if rows < max(num_rows) else None

    def acquire(self, model: str, version: int | None, label: str | None):
        """Returns a context that holds a loaded version of a model, and its number."""
        if not model:
            raise invalid("ModelSpec has no name specified.")
        served = self._served(model)
        if served is None:
            wanted = f"Latest({model})" if version is None else f"Specific({model}, {version})"
            raise ServingError("NOT_FOUND", f"Servable not found for request: {wanted}")
        return served.acquire(version, label)

    def metadata(self, model: str, version: int | None, label: str | None) -> tuple[int, dict]:
        """Returns a version's number and its `SignatureDef`s by name."""
        with self.acquire(model, version, label) as (found, loaded):
            return found, loaded.signatures

    def states(self, model: str, version: int | None) -> dict:
        """Returns the states of a model's versions, or of one of them."""
        served = self._served(model)
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

    def _served(self, name):
        if name == DEFAULT_MODEL and len(self.models) == 1:
            return next(iter(self.models.values()))
        return self.models.get(name)


def deadline_in(seconds: float | None) -> float | None:
    """Returns the time on `time.monotonic()` in so many seconds, at most an hour; None for none."""
    if seconds is None or math.isinf(seconds):
        return None
    return time.monotonic() + min(seconds, LONGEST_SECONDS)
