"""Recognizing digits by a few glimpses."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.commands.arguments import UsageError
from examples.commands.options import Directory, NonNegativeFloat
from examples.data.digit_batches import scale_image
from examples.recipes.base import Served
from examples.recipes.digit_losses import RecognitionLoss
from examples.recipes.digits import Digits, Part
from examples.recipes.frames import Animation, Cell, plot_cells

PALE = 0.25
DESCRIPTIONS = {
    "image": "an image of a digit, 0 for background and 1 for ink",
    "digit": "the most probable digit",
    "probability": "its probability",
    "probabilities": "those of the digits 0 to 9",
    "locations": "x and y of each glimpse's middle, from -1 (left, top) to 1 (right, bottom)",
}


@dataclasses.dataclass(kw_only=True)
class Recognition(Digits):
    """Reads the MNIST files, handwritten digits, and learns where to look from being right.

    The last 5,000 training images are held out as validation data.

    examples:
      python -m examples train {0} --mnist mnist --run runs/digits
      fewer glimpses, of two scales:
        python -m examples train {0} --mnist mnist --glimpses 3 --scales 2 --run runs/three
      where it looks is learned from what tells eight draws of an image's locations apart:
        python -m examples train {0} --mnist mnist --draws 8 --batch-size 16 --bias-per-glimpse \\
            --reward-weight 1 --run runs/draws

    Attributes:
        monitor: What decides which weights are best on the validation images.
        reward_weight: Weight of the reward, from which it learns where to look.
        draws: Draws of the locations of each image in a batch, each as dear as an image more; of
            several the reward of one is weighed against those of the others.
    """

    training_fields: ClassVar = (*Digits.training_fields, "reward_weight", "draws")

    epochs: int = 60
    monitor: Literal["accuracy", "crossentropy"] = "accuracy"
    reward_weight: NonNegativeFloat = 0.01
    draws: int = 1

    def check(self) -> None:
        super().check()
        if self.draws > 1 and self.strategy is not None:
            raise UsageError(
                "Several draws of an image stay on one device. Leave out --strategy, or --draws. "
                f"Received: --draws {self.draws} --strategy {self.strategy}"
            )

    @property
    def num_glimpses(self) -> int:
        """How often the model looks."""
        if self.model is None:
            return self.model_options["glimpses"]
        return self.model.output["locations"].shape[1]

    @property
    def retina(self) -> keras.layers.Layer:
        """The `RetinaGlimpse` of the model."""
        return self.model.get_layer("retina")

    def make_draw(self, is_training: bool) -> Callable:
        return draw_locations(self.num_glimpses, is_training, self.draws)

    def make_loss(self) -> RecognitionLoss:
        return RecognitionLoss(self.reward_weight)

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [
            keras.metrics.SparseCategoricalAccuracy("accuracy"),
            keras.metrics.SparseCategoricalCrossentropy("crossentropy", from_logits=True),
        ]

    def evaluate(
        self,
        *,
        mnist: Directory | None = None,
        part: Part = "test",
        max_examples: int | None = None,
    ) -> dict[str, object]:
        """Measures a run on images that it has not seen.

        examples:
          python -m examples evaluate runs/digits               the 10,000 test images
          python -m examples evaluate runs/digits --part validation    those it was chosen by

        what the numbers mean:
          error              fraction of the digits that are taken for another one, in %
          loss               -log of the probability of the right digit, in nats

        The first glimpse is of the middle of the image, the others are where the model means to
        look.

        Args:
            mnist: Folder of the four MNIST files; where the run has learned by default.
            part: Test images, or of the training files the last 5,000 or the others.
            max_examples: The first N of them; all by default.

        Returns:
            The numbers.
        """
        group = self.read_part(mnist, part, max_examples)
        measured = self.measure(group)
        return {
            "part": part,
            "images": len(group[0]["image"]),
            "error": 100 * (1 - measured["accuracy"]),
            "loss": measured["crossentropy"],
        }

    def plot(
        self,
        *,
        mnist: Directory | None = None,
        part: Part = "test",
        max_examples: int | None = None,
        count: int = 8,
    ) -> Iterator[tuple[str, object]]:
        """Draws where a model looks.

        examples:
          python -m examples plot runs/digits --output-dir plots
          python -m examples plot runs/digits --output-dir plots --part validation --count 12

        Writes glimpses.png, a row an image and a column a glimpse, the latest one red; what has not
        been seen yet is pale. The last column is the whole image with all glimpses and the answer.
        glimpses.gif shows the same one after another.

        Args:
            mnist: Folder of the four MNIST files; where the run has learned by default.
            part: Test images, or of the training files the last 5,000 or the others.
            max_examples: The first N of them; all by default.
            count: Images to draw, spread over the part.

        Yields:
            The name of a file, and its figure or animation.
        """
        inputs, labels = self.read_part(mnist, part, max_examples, count)
        rows = self.make_rows(inputs["image"], labels["digit"] - 1)
        yield "glimpses.png", plot_cells(rows)
        yield "glimpses.gif", Animation([[list(column)] for column in zip(*rows, strict=True)])

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/digits served         writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `image` (batch, 28, 28), 0 for background and 1 for ink. The answer holds
        `digit`, its `probability`, the `probabilities` of all ten, and `locations` (batch,
        glimpses, 2), where the model looked: x and y from -1, left and top, to 1.

        Returns:
            What is written.
        """
        image = keras.Input(self.model.input["image"].shape[1:], name="image")
        start = ops.zeros_like(image[:, 0, :2])  # (batch, 2)
        noise = ops.repeat(start[:, None, :], self.num_glimpses - 1, axis=1)
        outputs = self.model({"image": image, "start": start, "noise": noise})
        probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
        answers = {
            "digit": ops.argmax(probabilities, axis=-1),
            "probability": ops.max(probabilities, axis=-1),
            "probabilities": probabilities,
            "locations": outputs["locations"],
        }
        name = self.run.settings["model"]
        return Served(keras.Model({"image": image}, answers, name=name), DESCRIPTIONS)

    def predict(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probabilities `(batch, 10)` of uint8 images, and the locations."""
        inputs, _ = self.make_draw(False)({"image": images}, None, None)
        outputs = self.model.predict_on_batch(inputs)
        return ops.convert_to_numpy(ops.softmax(outputs["logits"])), outputs["locations"]

    def make_rows(self, images: np.ndarray, digits: np.ndarray) -> list[list[Cell]]:
        """Returns the cells of uint8 images and of what the model sees of them."""
        each = zip(images / 255.0, digits, *self.predict(images), strict=True)
        return [make_cells(self.retina, *one) for one in each]


def draw_locations(num_glimpses: int, is_training: bool, draws: int = 1) -> Callable:
    """Returns what `DrawnBatches` draws: where to look first, and how the rest vary.

    In training both are random, and of several draws of an image the first glimpse is the same;
    they follow each other, `(batch * draws, ...)`, and the digits are `(batch, draws)`. Otherwise
    nothing is drawn: the first glimpse is of the middle, the others are where the model means to
    look.
    """

    def add_noise(inputs, digit, seed):
        image = scale_image(inputs["image"])
        batch = tf.shape(image)[0]
        start, noise = tf.zeros((batch, 2)), tf.zeros((batch, num_glimpses - 1, 2))
        if is_training:
            seeds = tf.random.split(seed, 2)
            start = tf.random.stateless_uniform((batch, 2), seeds[0], -1.0, 1.0)
            noise = tf.random.stateless_normal((batch * draws, num_glimpses - 1, 2), seeds[1])
            if draws > 1:
                image, start = (tf.repeat(each, draws, axis=0) for each in (image, start))
                digit = tf.repeat(digit[:, None], draws, axis=1)
        return {"image": image, "start": start, "noise": noise}, digit

    return add_noise


def make_cells(retina, image, digit: int, probabilities, locations) -> list[Cell]:
    """Returns an image after each glimpse, and with the answer.

    Args:
        retina: The `RetinaGlimpse`.
        image: Array `(height, width)` from 0 to 1.
        digit: The right answer.
        probabilities: Array `(10,)`.
        locations: Array `(glimpses, 2)`.
    """
    seen, found, boxes = np.full(image.shape, PALE), [], []
    for number, location in enumerate(locations, 1):
        box = get_widest_patch(retina, image.shape, location)
        left, top, width, height = box
        rows, columns = (np.arange(size) for size in image.shape)
        inside = (rows[:, None] > top) & (rows[:, None] < top + height)
        inside = inside & (columns > left) & (columns < left + width)
        seen = np.where(inside, 1.0, seen)
        boxes.append(box)
        found.append(Cell(image * seen, (box,), f"{number}"))
    best = int(probabilities.argmax())
    expected = "" if best == digit else f", not {digit}"
    answer = f"{best} ({100 * probabilities[best]:.0f} %){expected}"
    return [*found, Cell(image, tuple(boxes), answer)]


def get_widest_patch(retina, shape, location):
    """Returns left, top, width and height of the widest patch, in pixels of `imshow`.

    There the middle of a pixel has its number, so the image begins at -0.5.
    """
    side = retina.size * retina.scale_factor ** (retina.num_scales - 1)
    height, width = shape
    middle = (location + 1.0) / 2.0 * np.array([width, height])
    left, top = middle - side / 2 - 0.5
    return left, top, side, side
