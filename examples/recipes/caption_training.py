"""The training of captioners: options, scenes of digits, words, batches and the optimizer."""

import argparse
import dataclasses
import typing
from typing import ClassVar, Literal

import keras

from examples.commands import arguments
from examples.commands.arguments import UsageError
from examples.commands.options import Directory, Fraction, PositiveFloat
from examples.data.idx import read_mnist
from examples.data.scene_stream import Encoder, SceneStream, make_tokenizer
from examples.data.scenes import CELL, LARGEST_GRID, Painter, count_words
from examples.models.encoders import image_encoder
from examples.recipes.base import Recipe
from examples.recipes.caption_metrics import CaptionTrainer, make_loss, make_metrics
from examples.training.schedules import halve_after_epoch
from examples.training.training_plan import TrainingPlan
from keras_attention.export import runs

#: Held-out scenes: seeds that no training has, at most 2**32 - 1.
SEEDS = {"validation": 2**32 + 1, "test": 2**32 + 2, "train": 1}


def parse_range(text: str) -> tuple[int, int]:
    """Returns the ends of a range `LOW:HIGH` of numbers from 1, or of one number.

    Example:

    >>> parse_range("2:4"), parse_range("3")
    ((2, 4), (3, 3))
    """
    low, _, high = text.partition(":")
    try:
        low, high = int(low), int(high or low)
    except ValueError:
        low = high = 0
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"expected a range such as 2:4, got {text!r}")
    return low, high


def check_range(text: str) -> str:
    """Returns a text that `parse_range` takes."""
    parse_range(text)
    return text


Range = typing.Annotated[str, check_range]


@dataclasses.dataclass(kw_only=True)
class CaptionTraining(Recipe):
    """Options, data and training of captioners; see `Captions`.

    Attributes:
        mnist: Folder of the four IDX files of MNIST, gzipped or not.
        grid: Cells on a side of a scene; a digit is in one of them.
        digits: Digits on a scene, LOW:HIGH.
        distortion: Turn, scale and shear each digit of the training at random: how much each entry
            of a matrix of 2 x 2 may differ from the identity's, below 1.
        batch_size: Scenes in a batch.
        epoch_size: Scenes in an epoch, after which it is measured.
        validation_size: Validation scenes.
        encoder_from: Run of another captioner whose image encoder this one begins with; a
            random one by default.
        monitor: What decides which weights are best on the validation scenes: the perplexity, the
            words that are right, or attention at the right place.
        lr_decay_start: Epochs after which the rate is halved.
        lr_decay_every: Epochs from one halving to the next.
    """

    #: Whether a sentence says which digit the caption is about.
    guided: ClassVar[bool] = False
    #: Names of what the model reads.
    inputs: ClassVar[tuple[str, ...]] = ("image", "target")
    tokenizer_names: ClassVar = ("words",)
    training_fields: ClassVar = ("encoder_from", "monitor", "lr_decay_start", "lr_decay_every")
    quick_training: ClassVar = "--epochs 1 --epoch-size 64 --no-xla"
    trainer: ClassVar = CaptionTrainer

    mnist: Directory
    grid: typing.Annotated[int, arguments.int_at_least(1, LARGEST_GRID)] = 3
    digits: Range = "2:4"
    distortion: Fraction = 0.0
    batch_size: int = 64
    epoch_size: int = 6400
    validation_size: int = 1024
    epochs: int = 16
    encoder_from: Directory | None = None
    monitor: Literal["perplexity", "accuracy", "pointing_accuracy"] = "perplexity"
    learning_rate: PositiveFloat = 2e-3
    lr_decay_start: int = 10
    lr_decay_every: int = 2

    def check(self) -> None:
        most = self.grid**2
        if parse_range(self.digits)[1] > most:
            raise UsageError(
                f"A scene of {self.grid} x {self.grid} cells holds at most {most} digits. "
                f"Received: --digits {self.digits}"
            )
        if self.epoch_size < self.batch_size or self.validation_size < self.batch_size:
            raise UsageError(
                "An epoch and the validation scenes hold at least one batch. Lower --batch-size. "
                f"Received: --batch-size {self.batch_size} --epoch-size {self.epoch_size} "
                f"--validation-size {self.validation_size}"
            )
        options = self.model_options
        backbone = options["backbone"]
        of_backbone = {
            "backbone_weights": None,
            "backbone_size": image_encoder.BACKBONE_SIZE,
            "train_backbone": False,
        }
        for option, default in of_backbone.items():
            if backbone is None and options[option] != default:
                raise UsageError(f"--{option.replace('_', '-')} is for a --backbone. Name it.")
        if backbone is not None:
            if options["convolutions"] != image_encoder.CONVOLUTIONS:
                raise UsageError(
                    "--convolutions are those of the small network that --backbone replaces. Leave "
                    f"one of them out. Received: --backbone {backbone} "
                    f"--convolutions {options['convolutions']}"
                )
            try:
                image_encoder.find_backbone(backbone)
            except ValueError as error:
                raise UsageError(str(error)) from None

    def read_data(self) -> dict[str, Painter]:
        return {
            "training": self._make_painter("train", distortion=self.distortion),
            "validation": self._make_painter("validation"),
        }

    def make_tokenizers(self, training: object) -> dict:
        return {"words": make_tokenizer()}

    def make_batches(self, name: str, part: Painter) -> SceneStream:
        is_validation = name == "validation"
        stream = self._make_stream(
            part,
            self.batch_size,
            (self.validation_size if is_validation else self.epoch_size) // self.batch_size,
            SEEDS["validation"] if is_validation else self.seed,
        )
        print(f"{name}: {stream}")
        return stream

    def get_sizes(self) -> tuple[int, ...]:
        return (*super().get_sizes(), self.grid * CELL)

    def prepare(self, model_name, build, record, directory, is_new, workers) -> TrainingPlan:
        plan = super().prepare(model_name, build, record, directory, is_new, workers)
        print("it looks at {} x {} locations".format(*self.locations))
        if is_new and self.encoder_from:
            image_encoder.copy_weights(runs.read_run(self.encoder_from).model, plan.model)
            print(f"it begins with the image encoder of {self.encoder_from}")
        return plan

    def make_optimizer(self, model: keras.Model, batches: SceneStream) -> keras.optimizers.Adam:
        rate = halve_after_epoch(
            self.learning_rate, self.lr_decay_start, batches.batches, self.lr_decay_every
        )
        return keras.optimizers.Adam(rate, **self.get_optimizer_options())

    def make_loss(self) -> dict[str, object]:
        return make_loss()

    def make_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return make_metrics(self.locations, self.grid * CELL)

    @property
    def locations(self) -> tuple[int, int]:
        """Rows and columns of locations that the model looks at; images are square."""
        return image_encoder.count_locations(self.model)

    @property
    def _longest(self):
        """Words of the longest caption."""
        return count_words(parse_range(self.digits), self.guided)

    def _make_painter(self, part, mnist=None, digits=None, distortion=0.0):
        """What draws scenes from the images of a part."""
        images, labels = read_mnist(mnist or self.mnist, part)
        digits = parse_range(digits or self.digits)
        return Painter(images, labels, self.grid, digits, self.guided, distortion)

    def _make_stream(self, painter, batch_size, batches, seed):
        """The scenes of a painter as the model reads them."""
        encoder = Encoder(self.tokenizers["words"], self._longest)
        return SceneStream(painter, encoder, batch_size, batches, seed, self.inputs)
