"""What is answered, whatever the protocol: models by name, predictions, metadata, states."""

import math
import time

import numpy as np

from keras_attention.export.argument_types import LONGEST_SECONDS
from keras_attention.export.serving.admission import Admission
from keras_attention.export.serving.errors import ServingError, invalid
from keras_attention.export.serving.models import ServedModel

DEFAULT_MODEL = "model"
MAX_ROWS = 4096


class Service:
    """A fixed table of models behind a bounded queue.

    Nothing a request names is loaded, opened or run: a model is a key of the table, a version
    an int that is loaded or not, a signature a key of the version's own. A model that is alone
    is also called `model`, as the stock server's image calls the one it serves.

    Args:
        models: List of `ServedModel`.
        admission: An `Admission`.
        max_rows: Most rows of a request.
    """

    def __init__(self, models: list[ServedModel], admission: Admission, max_rows: int = MAX_ROWS):
        self.models = {model.name: model for model in models}
        self.admission, self.max_rows = admission, max_rows

    def predict(
        self,
        model: str,
        version: int | None,
        label: str | None,
        signature: str,
        inputs: dict[str, np.ndarray],
        outputs: tuple[str, ...] = (),
        seconds: float | None = None,
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Returns the version that answered and the outputs of one of its signatures.

        Args:
            model: Name of the model.
            version: The version wanted, None for the highest one.
            label: A label instead of a version, or None.
            signature: Name of the signature, "" for the default one.
            inputs: Dict of arrays.
            outputs: Names of the outputs wanted, all if empty.
            seconds: How long the answer may take, the queue included. A request in the queue
                holds its version, as in the model server.

        Raises:
            ServingError: If there is no answer.
        """
        with self.acquire(model, version, label) as (found, loaded):
            return found, self.run(loaded, signature, inputs, outputs, seconds)

    def run(self, loaded, signature: str, inputs: dict, outputs=(), seconds: float | None = None):
        """Returns the outputs of a signature of a version that `acquire` holds.

        Args:
            loaded: The `LoadedVersion`.
            signature, inputs, outputs, seconds: Those of `predict`.

        Raises:
            ServingError: If there is no answer.
        """
        deadline = deadline_in(seconds)
        for name, array in inputs.items():
            if array.ndim and len(array) > self.max_rows:
                raise invalid(
                    f"input {name} has {len(array)} rows, more than {self.max_rows}. Send them in "
                    "several requests."
                )
        with self.admission.slot(deadline):
            return loaded.run(signature, inputs, outputs, deadline)

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
