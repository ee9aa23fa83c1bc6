"""What the recipes on the handwritten digits of MNIST share."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import Directory, PositiveFloat
from examples.data.digit_batches import DrawnBatches, read_rows
from examples.data.idx import SIDE
from examples.data.order import pick_evenly
from examples.data.rows import RowBatches
from examples.recipes.base import Recipe
from examples.recipes.digit_losses import OutputsTrainer
from examples.training.fitting import evaluate
from examples.training.recorder import Plateau
from examples.training.schedules import cool_down

Part = Literal["test", "validation", "train"]
#: Of `evaluate`, whatever the run was trained with: what is drawn depends on it.
BATCH_SIZE = 100


@dataclasses.dataclass(kw_only=True)
class Digits(Recipe):
    """Reads the MNIST files, handwritten digits.

    Attributes:
        mnist: Folder of the four MNIST files, train-images-idx3-ubyte.gz and so on.
        max_examples: Take the first N images of each part; all by default.
        batch_size: Images in a batch.
        plateau: Halve the learning rate after N epochs without a new best; never by default.
        decay_epochs: The last epochs of --epochs, in which the rate falls to nothing in a line;
            let nothing else stop the run then, and keep --epochs; none by default.
    """

    training_fields: ClassVar = ("monitor", "plateau", "decay_epochs")
    quick_training: ClassVar = "--max-examples 200 --epochs 1 --no-xla"
    quick_evaluation: ClassVar = "--max-examples 100"
    float_format: ClassVar = ".4g"
    trainer: ClassVar = OutputsTrainer
    #: Of Adam.
    beta_1: ClassVar = 0.9

    mnist: Directory
    max_examples: int | None = None
    batch_size: int = 100
    plateau: int | None = None
    decay_epochs: PositiveFloat | None = None

    def check(self) -> None:
        decay = self.decay_epochs
        if decay is not None and (self.plateau is not None or decay > self.epochs):
            plateau = "" if self.plateau is None else f" --plateau {self.plateau}"
            raise UsageError(
                "--decay-epochs takes its epochs from the end of --epochs, and is not for "
                f"--plateau. Received: --decay-epochs {decay:g} --epochs {self.epochs}{plateau}"
            )

    def make_draw(self, is_training: bool) -> Callable:
        """Returns what `DrawnBatches` draws."""
        raise NotImplementedError

    def read_data(self) -> dict[str, tuple[dict, dict]]:
        parts = {"training": "train", "validation": "validation"}
        return {
            name: read_rows(self.mnist, part, self.max_examples) for name, part in parts.items()
        }

    def make_batches(self, name: str, part: tuple[dict, dict]) -> DrawnBatches:
        is_training = name == "training"
        seed = self.seed if is_training else 0
        batches = self._make_batches(part, self.batch_size, seed, is_training)
        print(f"{name}: {batches}")
        return batches

    def get_sizes(self) -> tuple[int, ...]:
        return SIDE, SIDE

    def make_optimizer(self, model: keras.Model, batches: DrawnBatches) -> keras.optimizers.Adam:
        rate = cool_down(
            self.learning_rate, self.epochs, self.decay_epochs, batches.batches_per_epoch()
        )
        return keras.optimizers.Adam(rate, beta_1=self.beta_1, **self.get_optimizer_options())

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        if self.plateau is None:
            return ()
        return (Plateau(directory, self.monitor, patience=self.plateau),)

    def measure(self, group: tuple[dict, dict]) -> dict[str, float]:
        """Returns loss and metrics on the images of `read_part`."""
        batches = self._make_batches(group, BATCH_SIZE)
        metrics = self.make_metrics()
        return evaluate(
            self.model, batches.epoch(0), self.make_loss(), metrics, trainer=self.trainer
        )

    def read_part(
        self,
        mnist: pathlib.Path | None,
        part: Part,
        max_examples: int | None,
        count: int | None = None,
    ) -> tuple[dict, dict]:
        """Returns the images that a command names, as `read_rows` does.

        Args:
            mnist: Folder of the files; where the run has learned if None.
            part: The part of them.
            max_examples: The first so many; None for all.
            count: So many of these, spread over them; None for all.

        Raises:
            UsageError: If neither the command nor the run names a folder.
            DataError: If the files are not those of MNIST.
        """
        if not (mnist or self.mnist):
            raise UsageError(
                "There are no images. Name the folder of the MNIST files with --mnist."
            )
        inputs, labels = read_rows(mnist or self.mnist, part, max_examples)
        places = range(len(labels["digit"]))
        places = list(places) if count is None else pick_evenly(places, count)
        return {"image": inputs["image"][places]}, {"digit": labels["digit"][places]}

    def _make_batches(self, group, batch_size, seed=0, is_training=False):
        rows = RowBatches([group], batch_size, seed, is_training)
        return DrawnBatches(rows, self.make_draw(is_training))
