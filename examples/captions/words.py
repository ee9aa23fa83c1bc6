"""The words of scenes as ids: the same in training, evaluation and the exported graph."""

import pathlib

import numpy as np

from examples.captions import scenes
from keras_attention.export import tokenizers
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import BOS_ID, EOS_ID

FOLDER = "words.tokenizer"
GUIDE_WORDS = max(len(guide.split()) for guide in scenes.GUIDES)
"""Words of the longest sentence that names a digit."""


def make() -> WordTokenizer:
    """Returns a tokenizer of the words that scenes have."""
    return WordTokenizer(scenes.vocabulary(), lowercase=True)


def load(directory) -> WordTokenizer:
    """Returns the tokenizer of a run.

    Raises:
        FileNotFoundError: If it is missing.
        ValueError: If it is damaged.
    """
    return tokenizers.load(pathlib.Path(directory) / FOLDER)


class Encoder:
    """Turns scenes into arrays.

    Args:
        tokenizer: A `WordTokenizer`.
        longest: Positive int, words of the longest caption.

    Example:

    >>> images, labels = np.full((10, 28, 28), 255, np.uint8), np.arange(10)
    >>> painter = scenes.Painter(images, labels, grid=1, digits=(1, 1))
    >>> scene = painter.draw(np.random.default_rng(3))
    >>> inputs, labels = Encoder(make(), longest=2)([scene, scene])
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
            `(batch, longest + 1)`, which begins with the start mark, and `guide`
            `(batch, GUIDE_WORDS)`; and `caption`, like `target` but with the end mark behind,
            and `box` `(batch, longest + 1, 4)`, where each word is: `(top, left, bottom,
            right)` in points, 0 for the end mark and padding.
        """
        count, width = len(drawn), self.longest + 1
        target, caption = (np.zeros((count, width), np.int32) for _ in range(2))
        guide = np.zeros((count, GUIDE_WORDS), np.int32)
        box = np.zeros((count, width, 4), np.float32)
        for row, scene in enumerate(drawn):
            ids = self._encoded(scene.caption)
            target[row, : len(ids) + 1] = [BOS_ID, *ids]
            caption[row, : len(ids) + 1] = [*ids, EOS_ID]
            asked = self._encoded(scene.guide)
            guide[row, : len(asked)] = asked
            box[row, : len(scene.named)] = scene.named
        image = np.stack([scene.image for scene in drawn]).astype(np.float32)
        return {"image": image, "target": target, "guide": guide}, {"caption": caption, "box": box}

    def _encoded(self, text):
        return [self._ids[word] for word in text.split()]
