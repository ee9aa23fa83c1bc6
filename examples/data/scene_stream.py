"""Endless scenes as ids, in epochs: batch k of epoch e is a function of (seed, e, k) alone."""

import hashlib

import numpy as np
import tensorflow as tf

from examples.data import scenes
from examples.data.drawn import generator_of, prefetch_draws
from examples.data.scenes import Painter, Scene
from keras_attention import validation
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import BOS_ID, EOS_ID

#: Words of the longest sentence that names a digit.
GUIDE_WORDS = max(len(guide.split()) for guide in scenes.GUIDES)


def make_tokenizer() -> WordTokenizer:
    """Returns a tokenizer of the words that scenes have."""
    return WordTokenizer(scenes.vocabulary(), lowercase=True)


class Encoder:
    """Turns scenes into arrays.

    Args:
        tokenizer: A `WordTokenizer`.
        longest: Positive int, words of the longest caption.

    Example:

    >>> images, labels = np.full((10, 28, 28), 255, np.uint8), np.arange(10)
    >>> painter = scenes.Painter(images, labels, grid=1, digits=(1, 1))
    >>> scene = painter.draw(np.random.default_rng(3))
    >>> inputs, labels = Encoder(make_tokenizer(), longest=2)([scene, scene])
    >>> inputs["image"].shape, inputs["target"].tolist() == [[2, 4 + scene.digits[0], 0]] * 2
    ((2, 24, 24, 1), True)
    >>> labels["box"][0].tolist()
    [[0.0, 0.0, 24.0, 24.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, tokenizer: WordTokenizer, longest: int):
        self.longest = longest
        # Special ids come first, and a batch needs no graph of a few hundred words.
        self._ids = {word: number for number, word in enumerate(tokenizer.vocabulary, 4)}

    def __call__(self, drawn) -> tuple[dict, dict]:
        """Returns `(inputs, labels)` of scenes.

        Returns:
            `image` `(batch, side, side, 1)`, float32 from 0 to 255, `target`
            `(batch, longest + 1)`, which begins with the BOS token, and `guide`
            `(batch, GUIDE_WORDS)`; and `caption`, like `target` but with the EOS token behind,
            and `box` `(batch, longest + 1, 4)`, where each word is: `(top, left, bottom,
            right)` in points, 0 for the EOS token and padding.
        """
        count, width = len(drawn), self.longest + 1
        target, caption = (np.zeros((count, width), np.int32) for _ in range(2))
        guide = np.zeros((count, GUIDE_WORDS), np.int32)
        box = np.zeros((count, width, 4), np.float32)
        for row, scene in enumerate(drawn):
            ids = self._encode(scene.caption)
            target[row, : len(ids) + 1] = [BOS_ID, *ids]
            caption[row, : len(ids) + 1] = [*ids, EOS_ID]
            asked = self._encode(scene.guide)
            guide[row, : len(asked)] = asked
            box[row, : len(scene.named)] = scene.named
        image = np.stack([scene.image for scene in drawn]).astype(np.float32)
        return {"image": image, "target": target, "guide": guide}, {"caption": caption, "box": box}

    def _encode(self, text):
        return [self._ids[word] for word in text.split()]


class SceneStream:
    """Batches of scenes, in epochs of a fixed number.

    Args:
        painter: A `Painter`.
        encoder: An `Encoder`.
        batch_size: Positive int, scenes in a batch.
        batches: Positive int, batches in an epoch.
        seed: Int of at least 0, below 2**64. Held-out scenes are those of a different seed, and of
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
        validation.check_number_in_range(owner, "seed", seed, 0, 2**64, exclude_high=True)

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
        return prefetch_draws(draw, specs, start, self.batches)

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
