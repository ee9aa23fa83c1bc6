"""A run that recognizes digits, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.data.rows import RowBatches
from examples.digits.batches import DrawnBatches
from examples.digits.recognition.looks import intended
from examples.digits.recognition.loss import RecognitionLoss, RecognitionTrainer, make_metrics
from examples.training.fitting import evaluate
from keras_attention.export.runs import Run, read_run

BATCH_SIZE = 100


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model that looks and says what it sees.

    Attributes:
        run: The `Run`.
    """

    run: Run

    @property
    def model(self) -> keras.Model:
        """The model, from `image`, `start` and `noise` to `logits`, `locations` and more."""
        return self.run.model

    @property
    def glimpses(self) -> int:
        """How often it looks."""
        return self.model.output["locations"].shape[1]

    @property
    def retina(self) -> keras.layers.Layer:
        """Its `RetinaGlimpse`."""
        return self.model.get_layer("retina")

    def numbers(self, group) -> dict:
        """Returns what is measured on the pictures of `read_rows`."""
        rows = RowBatches([group], BATCH_SIZE, is_training=False)
        batches = DrawnBatches(rows, intended(self.glimpses))
        return evaluate(
            *(self.model, batches.epoch(0), RecognitionLoss(), make_metrics()),
            trainer=RecognitionTrainer,
        )

    def answers(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probabilities `(pictures, 10)` of uint8 pictures, and the locations."""
        look = intended(self.glimpses)
        outputs = self.model.predict_on_batch(look({"image": images}, None, None)[0])
        return keras.ops.convert_to_numpy(keras.ops.softmax(outputs["logits"])), outputs[
            "locations"
        ]


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model loaded."""
    run = read_run(directory)
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return Opened(run)
