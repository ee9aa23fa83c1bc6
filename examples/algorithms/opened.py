"""A run on a task of the Neural Turing Machine, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples import tasks
from examples.tasks.base import Task
from keras_attention.export.runs import Run, read_run


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model and its task.

    Attributes:
        run: The `Run`.
        task: The task.
        sizes: The ranges it was trained on, by name.
    """

    run: Run
    task: Task
    sizes: dict[str, tuple[int, int]]

    @property
    def model(self) -> keras.Model:
        """The model, from `inputs` to logits."""
        return self.run.model

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of a 1, `(batch, time, output_dim)`."""
        logits = self.model.predict_on_batch({"inputs": inputs})
        return 1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, np.float64), -60.0, 60.0)))

    def history(self, inputs: np.ndarray) -> dict | None:
        """Returns the history of heads and memory as arrays, None for a model without them."""
        names = [layer.name for layer in self.model.layers]
        if "ntm" not in names:
            return None
        _, history = self.model.get_layer("ntm")(inputs, return_auxiliary_outputs=True)
        return {name: keras.ops.convert_to_numpy(value) for name, value in history.items()}


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model loaded.

    Raises:
        ValueError: If it does not name its task.
    """
    run = read_run(directory)
    name = run.settings.get("task")
    if name not in tasks.TASKS:
        raise ValueError(
            f"{directory}/run.json is expected to name its task, one of {', '.join(tasks.TASKS)}. "
            f"Received: task={name!r}"
        )
    task = tasks.find(name)
    sizes = {key: tuple(ends) for key, ends in run.settings.get("sizes", {}).items()}
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return Opened(run, task, task.ranges(**sizes))
