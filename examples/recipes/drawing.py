"""Drawing digits through a moving window."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.commands.options import Directory, NonNegativeFloat, Seed
from examples.data.digit_batches import scale_image
from examples.models import draw
from examples.recipes.base import Served
from examples.recipes.digit_losses import Bound
from examples.recipes.digits import Digits, Part
from examples.recipes.frames import Animation, Cell, plot_cells

COLUMNS = 8
MAX_FRAMES = 16
DESCRIPTIONS = {
    "noise": "standard normal numbers: different numbers, a different image",
    "image": "the probability of ink at each pixel",
    "canvases": "the same after every step",
    "windows": "where each step wrote: x and y of the middle, in pixels from 1; variance of the "
    "filters; pixels from one to the next; gain",
}


@dataclasses.dataclass(kw_only=True)
class Drawing(Digits):
    """Reads the MNIST files, handwritten digits, and learns to draw them.

    The last 5,000 training images are held out as validation data. A pixel is ink with the
    probability of its grey, drawn anew in every epoch.

    examples:
      python -m examples train {0} --mnist mnist --run runs/drawn
      a small one, for a first look:
        python -m examples train {0} --mnist mnist --steps 5 --units 64 --max-examples 5000 \\
            --epochs 3 --run runs/try

    Attributes:
        monitor: What decides which weights are best on the validation images.
    """

    quick_training: ClassVar = f"{Digits.quick_training} --steps 2"
    beta_1: ClassVar = 0.5  # section 4 of the paper

    epochs: int = 30
    clip_norm: NonNegativeFloat = 10.0
    monitor: Literal["bound"] = "bound"

    @property
    def noise_shape(self) -> tuple[int, int]:
        """Steps, and latent numbers of a step."""
        if self.model is None:
            return self.model_options["steps"], self.model_options["latent_dim"]
        return tuple(self.model.input["noise"].shape[1:])

    def make_draw(self, is_training: bool) -> Callable:
        return binarize(*self.noise_shape)

    def make_loss(self) -> Bound:
        return Bound()

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [
            keras.metrics.MeanMetricWrapper(lambda image, costs: ops.sum(costs, axis=1), "bound"),
            keras.metrics.MeanMetricWrapper(lambda image, costs: costs[:, 1], "kl"),
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
          python -m examples evaluate runs/drawn               the 10,000 test images
          python -m examples evaluate runs/drawn --part validation    those it was chosen by

        what the numbers mean:
          bound              what an image costs at most, -log p in nats, with one draw of the
                             latent numbers; the smaller, the better
          reconstruction     the part of it that the pixels cost, given the latent numbers
          kl                 the part of it that the latent numbers cost

        Pixels are 0 or 1, drawn by their grey and always the same.

        Args:
            mnist: Folder of the four MNIST files; where the run has learned by default.
            part: Test images, or of the training files the last 5,000 or the others.
            max_examples: The first N of them; all by default.

        Returns:
            The numbers.
        """
        group = self.read_part(mnist, part, max_examples)
        measured = self.measure(group)
        bound, kl = measured["bound"], measured["kl"]
        return {
            "part": part,
            "images": len(group[0]["image"]),
            "bound": bound,
            "reconstruction": bound - kl,
            "kl": kl,
        }

    def plot(
        self,
        *,
        mnist: Directory | None = None,
        part: Part = "test",
        max_examples: int | None = None,
        count: int = 4,
        samples: int = 64,
        sample_seed: Seed = 1,
    ) -> Iterator[tuple[str, object]]:
        """Draws new digits, and how they come about.

        examples:
          python -m examples plot runs/drawn --output-dir plots
          python -m examples plot runs/drawn --output-dir plots --count 12 --samples 100 \\
              --sample-seed 7

        Writes samples.png and samples.gif, new digits, the window red where ink is added; and
        drawing.png and drawing.gif, digits of the data: above, where the model reads, below, what
        it has drawn of them so far.

        Args:
            mnist: Folder of the four MNIST files; where the run has learned by default.
            part: Test images, or of the training files the last 5,000 or the others.
            max_examples: The first N of them; all by default.
            count: Digits of the data to draw again, spread over the part.
            samples: New digits to draw.
            sample_seed: Seed of the new digits.

        Yields:
            The name of a file, and its figure or animation.
        """
        group = self.read_part(mnist, part, max_examples, count)
        new = self.sample(samples, sample_seed)
        yield "samples.png", plot_cells(_split_rows(map(Cell, new["image"])))
        yield "samples.gif", Animation(self.make_sample_frames(new))
        frames = self.make_drawing_frames(group)
        steps = sorted(set(np.linspace(0, len(frames) - 1, MAX_FRAMES).round().astype(int)))
        rows = [
            [frames[step][line][place] for step in steps]
            for place in range(len(group[0]["image"]))
            for line in (0, 1)
        ]
        yield "drawing.png", plot_cells(rows)
        yield "drawing.gif", Animation(frames)

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/drawn served          writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `noise` (batch, steps, latent), standard normal numbers: different numbers,
        a different image. The answer holds `image` (batch, 28, 28), the probability of ink,
        `canvases` (batch, steps, 28, 28), the same after every step, and `windows` (batch, steps,
        5), where it wrote.

        Returns:
            What is written.
        """
        return Served(draw.generator(self.model), DESCRIPTIONS)

    def sample(self, count: int, seed: int) -> dict[str, np.ndarray]:
        """Returns what the generator draws from random numbers."""
        noise = np.random.default_rng(seed).standard_normal((count, *self.noise_shape))
        return draw.generator(self.model).predict_on_batch({"noise": noise.astype("float32")})

    def make_sample_frames(self, new: dict[str, np.ndarray]) -> list:
        """Returns the canvases of `sample`, step by step, with the windows they were written in."""
        steps = range(new["canvases"].shape[1])
        return [
            _split_rows(self._make_written(new["canvases"], new["windows"], step)) for step in steps
        ]

    def make_drawing_frames(self, group: tuple[dict, dict]) -> list:
        """Returns two rows a step: what is read of each image of a group, and what is written."""
        inputs, *_ = next(iter(self._make_batches(group, len(group[0]["image"])).epoch(0)))
        outputs = self.model.predict_on_batch(inputs)
        size = self.model.get_layer("reader").size
        canvases = 1.0 / (1.0 + np.exp(-np.clip(outputs["canvases"], -60.0, 60.0)))
        return [
            [
                [
                    Cell(image, (make_box(window, size),), f"{step + 1}")
                    for image, window in zip(
                        inputs["image"].numpy(), outputs["reads"][:, step], strict=True
                    )
                ],
                self._make_written(canvases, outputs["writes"], step),
            ]
            for step in range(canvases.shape[1])
        ]

    def _make_written(self, canvases, windows, step):
        """The cells of the canvases after a step, each with the window it was written in."""
        size = self.model.get_layer("ink").target_shape[0]
        return [
            Cell(canvas, (make_box(window, size),))
            for canvas, window in zip(canvases[:, step], windows[:, step], strict=True)
        ]


def binarize(steps: int, latent_dim: int) -> Callable:
    """Returns what `DrawnBatches` draws: images of 0 and 1, and normal noise.

    A pixel is 1 with the probability of its grey. What is drawn for evaluation is always the
    same, for its epoch is always the same.
    """

    def add_noise(inputs, digit, seed):
        seeds = tf.random.split(seed, 2)
        grey = scale_image(inputs["image"])
        image = tf.cast(tf.random.stateless_uniform(tf.shape(grey), seeds[0]) < grey, tf.float32)
        shape = (tf.shape(grey)[0], steps, latent_dim)
        noise = tf.random.stateless_normal(shape, seeds[1])
        return {"image": image, "noise": noise}, image

    return add_noise


def make_box(window, size: int):
    """Returns left, top, width and height of a window of `size` filters a side.

    A window counts pixels from 1, `imshow` from 0. The box holds the middles of all filters.
    """
    center_x, center_y, _, stride, _ = window
    side = (size - 1) * stride + 1.0
    return center_x - 1.0 - side / 2, center_y - 1.0 - side / 2, side, side


def _split_rows(cells):
    cells = list(cells)
    return [cells[first : first + COLUMNS] for first in range(0, len(cells), COLUMNS)]
