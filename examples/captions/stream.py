"""Endless scenes in epochs: batch k of epoch e is a function of (seed, e, k) alone."""

import hashlib

import tensorflow as tf

from examples.captions.scenes import Painter, Scene
from examples.captions.words import Encoder
from examples.data.drawn import drawn_ahead, generator_of
from keras_attention import validation


class SceneStream:
    """Batches of scenes, in epochs of a fixed number.

    Args:
        painter: A `Painter`.
        encoder: An `Encoder`.
        batch_size: Positive int, scenes in a batch.
        batches: Positive int, batches in an epoch.
        seed: Int of at least 0, below 2**64. Held-out scenes are those of another seed, and of
            other digits.
        names: The inputs that the model reads.

    Raises:
        ValueError: If a number lies outside its range.
    """

    def __init__(self, painter: Painter, encoder: Encoder, batch_size, batches, seed, names):
        owner = "SceneStream"
        self.painter, self.encoder, self.names = painter, encoder, tuple(names)
        self.batch_size = validation.check_positive_int(owner, "batch_size", batch_size)
        self.batches = validation.check_positive_int(owner, "batches", batches)
        self.seed = validation.check_int_at_least(owner, "seed", seed, 0)
        validation.check_number_in_range(owner, "seed", seed, 0, 2**64, below=True)

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return self.batches

    def scenes(self, epoch: int, batch: int) -> list[Scene]:
        """Returns the scenes of batch `batch` of an epoch."""
        generator = generator_of(self.seed, epoch, batch)
        return [self.painter.draw(generator) for _ in range(self.batch_size)]

    def arrays(self, epoch: int, batch: int) -> tuple[dict, dict]:
        """Returns batch `batch` of an epoch as arrays, `(inputs, labels)`; see `Encoder`."""
        inputs, labels = self.encoder(self.scenes(epoch, batch))
        return {name: inputs[name] for name in self.names}, labels

    def epoch(self, number: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch from batch `start` on, drawn ahead of the training.

        The labels are named after the outputs: the captions `logits`, the boxes `weights`.
        """
        validation.check_int_at_least("SceneStream", "number", number, 0)
        validation.check_int_at_least("SceneStream", "start", start, 0)

        def draw(batch, epoch=number):
            inputs, labels = self.arrays(epoch, batch)
            return inputs, {"logits": labels["caption"], "weights": labels["box"]}

        specs = tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), draw(0, epoch=0)
        )
        return drawn_ahead(draw, specs, start, self.batches)

    def digest(self) -> str:
        """Returns a string that changes with the first batch."""
        sha = hashlib.sha256()
        for array in tf.nest.flatten(self.arrays(0, 0)):
            sha.update(array.tobytes())
        return sha.hexdigest()

    def __str__(self) -> str:
        low, high = self.painter.digits
        return (
            f"{self.batches:,} batches an epoch of {self.batch_size} scenes, "
            f"{self.painter.side} x {self.painter.side} points with {low} to {high} digits"
        )
