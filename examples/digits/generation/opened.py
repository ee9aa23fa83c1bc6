"""A run that draws digits, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.data.rows import RowBatches
from examples.digits.batches import DrawnBatches
from examples.digits.generation.bound import Bound, DrawingTrainer, make_metrics
from examples.digits.generation.drawn import binarized
from examples.models import draw
from examples.training.fitting import evaluate
from keras_attention.export.runs import Run, read_run

BATCH_SIZE = 100


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model that draws.

    Attributes:
        run: The `Run`.
    """

    run: Run

    @property
    def model(self) -> keras.Model:
        """The model, from `image` and `noise` to canvases and windows."""
        return self.run.model

    @property
    def noise_shape(self) -> tuple[int, int]:
        """Steps, and latent numbers of a step."""
        return tuple(self.model.input["noise"].shape[1:])

    def numbers(self, group) -> dict:
        """Returns the bound on the pictures of `read_rows`, its part of the latent numbers."""
        return evaluate(
            *(self.model, self._batches(group, BATCH_SIZE).epoch(0), Bound(), make_metrics()),
            trainer=DrawingTrainer,
        )

    def drawn_again(self, group) -> tuple[np.ndarray, dict]:
        """Returns the pictures of `read_rows` as they were read, and what the model drew."""
        inputs, *_ = next(iter(self._batches(group, len(group[0]["image"])).epoch(0)))
        return inputs["image"].numpy(), self.model.predict_on_batch(inputs)

    def samples(self, count: int, seed: int) -> dict:
        """Returns what the generator draws from random numbers."""
        noise = np.random.default_rng(seed).standard_normal((count, *self.noise_shape))
        return draw.generator(self.model).predict_on_batch({"noise": noise.astype("float32")})

    def _batches(self, group, batch_size):
        rows = RowBatches([group], batch_size, is_training=False)
        return DrawnBatches(rows, binarized(*self.noise_shape))


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model loaded."""
    run = read_run(directory)
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return Opened(run)
